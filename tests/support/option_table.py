"""The options of `mrflearn train`, read off the estimators: `make options` writes the table.

The command line reads the table, so that it can refuse a wrong option without importing torch;
`tests/cli/test_options.py` compares it with the signatures and docstrings.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import mrflearn
from mrflearn.cli.options import TABLE

# The estimators that each noun trains, by the words that the command line tells them apart with.
TRAINED: dict[str, dict[str, type]] = {
    "crf": {
        "chain": mrflearn.CRF,
        "factorial": mrflearn.FactorialCRF,
        "skip": mrflearn.SkipChainCRF,
    },
    "graph": {"graph": mrflearn.GraphCRF},
    "field": {
        "samples": mrflearn.MarkovField,
        "alignments": mrflearn.PottsField,
        "--graph learn": mrflearn.FieldStructure,
    },
    "lm": {"lm": mrflearn.LanguageModel},
    "vectors": {"vectors": mrflearn.WordVectors},
    "ngram": {"ngram": mrflearn.NgramLanguageModel},
    "hmm": {"hmm": mrflearn.HMMTagger},
    "tagger": {"tagger": mrflearn.JointTagger},
    "pcfg": {"pcfg": mrflearn.PCFG},
    "composite": {"composite": mrflearn.CompositeLanguageModel},
}
EXCLUDED = {
    "calibration_max_trials": "without effect",
    "callbacks": "they are functions",
    "coupled": "pairs of layers, counted in Python",
    "keep_tempfiles": "without effect",
    "linesearch": "without effect",
    "max_linesearch": "without effect",
    "model_filename": "it is --output",
    "trainer_cls": "it is refused",
    "tags": "files to learn from have tags",
    "warm_start": "a command has no earlier fit",
    "word": "the words come with the file",
}
PLAIN = {int: "int", float: "float", str: "str", bool: "bool", Any: "str"}


def table() -> dict[str, dict[str, dict[str, tuple[str, Any, str]]]]:
    """{noun: {kind: {argument: (type, default, help)}}}."""
    return {
        noun: {kind: dict(options(estimator)) for kind, estimator in kinds.items()}
        for noun, kinds in TRAINED.items()
    }


def options(estimator: type) -> Iterator[tuple[str, tuple[str, Any, str]]]:
    """The arguments of a constructor that are options, each with type, default and help."""
    names: dict[str, Any] = {}
    for base in reversed(estimator.__mro__):
        names |= vars(sys.modules[base.__module__])
    hints = get_type_hints(estimator.__init__, globalns=names)
    for name, own in inspect.signature(estimator).parameters.items():
        if name not in EXCLUDED and own.kind is not own.VAR_KEYWORD:
            values, text = described(estimator, name)
            yield name, (values or "|".join(alternatives(hints[name])), own.default, text)


def alternatives(hint: Any) -> Iterator[str]:
    """The forms that a value can have on the command line; others of the type are Python's."""
    if hint in PLAIN:
        yield PLAIN[hint]
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    elif hint is NoneType:
        yield "none"
    elif get_origin(hint) is Sequence and get_args(hint)[0] in PLAIN:
        yield PLAIN[get_args(hint)[0]] + "s"
    elif get_origin(hint) not in (Callable, Mapping, Sequence, tuple):
        for part in get_args(hint):
            yield from alternatives(part)


def described(estimator: type, name: str) -> tuple[str, str]:
    """What a docstring says of an argument: its values, where it lists them, and the text."""
    values, text = documented(estimator)[name]
    if elsewhere := re.search(r"[Aa]s in `(\w+)`", text):
        return described(getattr(mrflearn, elsewhere[1]), name)
    text = re.sub(r"; in Python [^.]*(?=\.)| \(`\w+_`\)", "", text)
    text = re.sub(r'`(\w+)="?([^`"]+)"?`', r"--\1 \2", text)  # a setting, as an option
    return values, re.sub(r"\bNone\b", "none", re.sub(r'`"?([^`]*?)"?`', r"\1", text))


def documented(estimator: type) -> dict[str, tuple[str, str]]:
    """The section "Parameters" of a numpydoc docstring; `...` stands for all that are not named."""
    text = inspect.cleandoc(estimator.__doc__ or "").split("Parameters\n----------\n")[1]
    found: dict[str, tuple[str, str]] = {}
    for entry in re.findall(
        r"^(\S.*)\n((?:    .*\n|\n(?=    ))+)", text.split("\n\n")[0] + "\n", re.M
    ):
        head, _, kind = entry[0].partition(" : ")
        values = "|".join(re.findall(r"[\w-]+", kind)) if kind.startswith("{") else ""
        for name in head.split(", "):
            found[name] = values, " ".join(entry[1].split())
    if "..." in found:
        rest = dict.fromkeys(inspect.signature(estimator).parameters, found["..."])
        return rest | found
    return found


def written() -> str:
    """The table as it stands in its file, one line an option."""
    parts = []
    for noun, kinds in table().items():
        rows = []
        for kind, own in kinds.items():
            lines = ",\n".join(
                f"    {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}"
                for name, row in own.items()
            )
            rows.append(f'  "{kind}": {{\n{lines}\n  }}')
        parts.append(f'"{noun}": {{\n' + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    Path(TABLE).write_text(written(), encoding="utf-8")
