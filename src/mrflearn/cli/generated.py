"""Commands that have the options of an estimator: its arguments, with their types and help.

They stand in `options.json`, which `make options` writes from signatures and docstrings, so that
no estimator is imported before the files it is to learn from are known to be there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from mrflearn.cli.options import check_jobs

TABLE = Path(__file__).with_name("options.json")
Row = tuple[str, Any, str]  # type, default and help of an argument
GROUPS = ("Arguments", "Data", "Output", "Model", "Optimisation", "Running")
RUNNING = ("device", "n_jobs", "random_state", "dtype")
OPTIMISATION = (
    *("algorithm", "max_iterations", "tolerance", "num_memories", "epsilon", "period", "delta"),
    *("batch_size", "patience", "rounds", "restarts", "start", "calibration_eta"),
    *("calibration_rate", "calibration_samples", "calibration_candidates"),
)
# Arguments that the command line calls by another name than Python.
NAMES = {
    "random_state": ("--seed",),
    "n_jobs": ("--jobs", "-j"),
    "connected": ("--parts",),
    "rule": ("--skip-rule",),
}
ALL_CORES = ("crf", "graph")  # where --jobs is -1 unless given: threads of a command disturb nobody
FORMS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "bool": bool}
WORDS = {"int": "whole number", "ints": "whole numbers", "float": "number", "floats": "numbers"}
SEVERAL = {"ints": "M,N,...", "floats": "X,Y,...", "strs": "A,B,..."}


@cache
def estimators(noun: str) -> dict[str, dict[str, Row]]:
    """The arguments of each estimator that a noun trains; the usual one comes first."""
    table: dict[str, dict[str, dict[str, Row]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table[noun]


def option_name(argument: str) -> str:
    """What the command line calls an argument of an estimator."""
    return _names(argument)[0]


def is_choice(forms: Sequence[str]) -> bool:
    """Whether the forms of an argument are words to choose from, and no types."""
    return not any(form.removesuffix("s") in FORMS for form in forms)


def generated(noun: str, only: Iterable[str] = ()) -> list[Parameter]:
    """The options of all estimators that a noun trains, or some of them, as parameters."""
    kinds = estimators(noun)
    names = only or dict.fromkeys(name for rows in kinds.values() for name in rows)
    found = []
    for name in names:
        rows = {kind: own[name] for kind, own in kinds.items() if name in own}
        kind, default, text = next(iter(rows.values()))
        defaults = {
            own: -1 if name == "n_jobs" and noun in ALL_CORES else row[1]
            for own, row in rows.items()
        }
        if name != "verbose":  # the opposite of --quiet
            found.append(_option(name, kind, default, text + _brackets(kinds, defaults)))
    return found


def as_arguments(noun: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, options of estimators as Python takes them: flags, numbers among choices."""
    rows = {name: row for own in estimators(noun).values() for name, row in own.items()}
    found = dict(given)
    for name, value in given.items():
        if name in rows and value is not None:
            kind, default, _ = rows[name]
            if kind == "bool":
                found[name] = not default
            elif isinstance(value, StrEnum):
                found[name] = int(value) if isinstance(default, int) else value.value
    return found


def with_options(function: Callable[..., None], parts: Sequence[Parameter]) -> Callable[..., None]:
    """The same function, which takes keywords, with these parameters for Typer to see."""
    kept = [part.replace(kind=Parameter.KEYWORD_ONLY) for part in parts]
    function.__signature__ = Signature(kept)  # type: ignore[attr-defined]
    function.__annotations__ = {part.name: part.annotation for part in kept}
    return function


def with_arguments(noun: str, *names: str) -> Callable[..., Callable[..., None]]:
    """A decorator for commands: these arguments of that noun's estimators come as keywords."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        *own, _ = parameters(function)
        first = [part for part in own if part.default is Parameter.empty]
        return with_options(function, [*first, *generated(noun, names), *own[len(first) :]])

    return decorate


def in_group(group: str, parts: Iterable[Parameter]) -> list[Parameter]:
    """The same parameters, shown in help under that heading."""
    found = list(parts)
    for part in found:
        for info in getattr(part.annotation, "__metadata__", ()):
            info.rich_help_panel = group
    return found


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function, with their annotations."""
    return list(signature(function, eval_str=True).parameters.values())


class GroupedCommand(TyperCommand):
    """A command whose help shows its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for own in self.get_params(ctx):
            record = own.get_help_record(ctx)
            if record is not None:
                group = getattr(own, "rich_help_panel", None) or "Output"
                argument = own.param_type_name == "argument"
                groups.setdefault("Arguments" if argument else group, []).append(record)
        for name in GROUPS:
            if name in groups:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def _names(argument: str) -> tuple[str, ...]:
    return NAMES.get(argument, ("--" + argument.replace("_", "-"),))


def _brackets(kinds: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Which estimators have an option where the usual one has it not, and its default."""
    first, *others = defaults.values()
    told = [] if next(iter(kinds)) in defaults else ["only " + ", ".join(defaults)]
    if any(own != first for own in others):
        told += ["default: " + ", ".join(f"{own} ({kind})" for kind, own in defaults.items())]
    elif first is not None and not isinstance(first, bool):
        told += [f"default: {first}"]
    return f"  [{'; '.join(told)}]" if told else ""


def _option(name: str, kind: str, default: Any, text: str) -> Parameter:
    """An option that is None where it is not given: the estimator's own default holds then."""
    forms, names = kind.split("|"), _names(name)
    annotation: Any = StrEnum
    shown: dict[str, Any] = {"help": text, "show_default": False}
    group = "Optimisation" if name in OPTIMISATION else "Model"
    shown["rich_help_panel"] = "Running" if name in RUNNING else group
    if kind == "bool":
        annotation = bool
        names = names if name in NAMES or not default else ("--no-" + names[0][2:],)
    elif is_choice(forms):
        annotation = annotation(name, {form: form for form in forms})
    else:
        annotation, metavar = str, "|".join(SEVERAL.get(form, form) for form in forms)
        shown |= {"parser": _parser(names[0], forms), "metavar": f"<{metavar}>"}
    annotated = Annotated[annotation | None, typer.Option(*names, **shown)]
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotated, default=None)


def _parser(name: str, forms: Sequence[str]) -> Callable[[str], Any]:
    """What turns the text of an option into the first of these forms that it has."""

    def parse(text: str) -> Any:
        for form in forms:
            read = FORMS.get(form.removesuffix("s"))
            if read is None:  # a word, as it is
                if text == form:
                    return text
                continue
            try:
                values = [read(part) for part in (text.split(",") if form in SEVERAL else [text])]
            except ValueError:
                continue
            if name == "--jobs":
                check_jobs(values[0])
            elif any(not isinstance(value, str) and not value >= 0 for value in values):
                raise typer.BadParameter(f"{text}: not below 0.")
            return values if form in SEVERAL else values[0]
        known = " or ".join(WORDS.get(form, form) for form in forms)
        raise typer.BadParameter(f"{text!r} is no {known}.")

    return parse
