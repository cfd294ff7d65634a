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
from mrflearn.cli.options import COMMANDS, TABLE, Row
from mrflearn.estimators.arguments import documented

# The estimators that each noun trains, by the words that the command line tells them apart with.
TRAINED: dict[str, dict[str, type]] = {
    noun: {kind: getattr(mrflearn, name) for kind, name in entry["estimators"].items()}
    for noun, entry in COMMANDS["train"].items()
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
    "verbose": "it is the opposite of --quiet",
    "vocabulary": "files to learn from have words",
    "warm_start": "a command has no earlier fit",
    "word": "the words come with the file",
}
PLAIN = {int: "int", float: "float", str: "str", bool: "bool", Any: "str"}


def table() -> dict[str, dict[str, Row]]:
    """{noun: {argument: (heading, names, help, {kind: (form, default)})}}."""
    return {noun: dict(rows(noun)) for noun in TRAINED}


def rows(noun: str) -> Iterator[tuple[str, Row]]:
    """The options of a noun; the first estimator that has one says what it does."""
    kinds = {kind: dict(options(estimator)) for kind, estimator in TRAINED[noun].items()}
    settings = COMMANDS["train"][noun].get("settings", {})
    for name in dict.fromkeys(name for own in kinds.values() for name in own):
        forms = {kind: own[name][:2] for kind, own in kinds.items() if name in own}
        form, default, text = next(own[name] for own in kinds.values() if name in own)
        text += brackets(kinds, {kind: settings.get(name, own) for kind, (_, own) in forms.items()})
        option = name.replace("_", "-")
        names = ["--no-" + option if form == "bool" and default else "--" + option]
        groups: dict[str, list[str]] = COMMANDS["headings"]
        heading = next((own for own, listed in groups.items() if name in listed), "Model")
        yield name, (heading, COMMANDS["names"].get(name, names), text, forms)


def brackets(kinds: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Which estimators have an option where the usual one has it not, and its default."""
    first, *others = defaults.values()
    notes = [] if next(iter(kinds)) in defaults else ["only " + ", ".join(defaults)]
    if any(own != first for own in others):
        notes += ["default: " + ", ".join(f"{own} ({kind})" for kind, own in defaults.items())]
    elif first is not None and not isinstance(first, bool):
        notes += [f"default: {first}"]
    return f"  [{'; '.join(notes)}]" if notes else ""


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


def written() -> str:
    """The table as it stands in its file, one line an option."""
    parts = []
    for noun, own in table().items():
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}"
            for name, row in own.items()
        )
        parts.append(f'"{noun}": {{\n{lines}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    Path(TABLE).write_text(written(), encoding="utf-8")
