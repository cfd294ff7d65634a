"""A verb asked of a saved model: its description answers, with the options that it reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import remark, say, say_json
from mrflearn.cli.pictures import keep
from mrflearn.cli.report import write_page
from mrflearn.errors import DataError, SettingsError

if TYPE_CHECKING:
    from mrflearn.describe.blocks import Block
    from mrflearn.describe.description import Description

ROWS = ("columns", "molecule", "drop_inserts")  # options that say how rows are read


def answered(verb: Callable[..., None]) -> Callable[..., None]:
    """The command with these arguments and options, answered by the model that it names."""
    name = verb.__name__.replace("_", "-")

    @wraps(verb)
    def command(**options: Any) -> None:
        ask(name, **options)

    return command


def ask(
    verb: str, context: typer.Context, model: Path, *, as_json: bool = False, **asked: Any
) -> None:
    """Has the model saved there answer, with those of its arguments that it reads.

    Options that were given and that it does not read are refused; so are verbs it has no answer to.
    """
    from mrflearn.describe.description import OptionError

    description, answer = _answer(verb, model)
    read = {*signature(answer).parameters} | {"html"}
    read |= {"plot"} if verb in description.pictures else set()
    read |= {*ROWS, "file"} if "rows" in read else set()
    reason = f"has no effect on a {description.kind}; leave it out."
    refuse_idle(context, {name: reason for name in asked if name not in read})
    given = {name: getattr(own, "value", own) for name, own in asked.items()}
    given |= {"as_json": as_json, "rows": partial(_rows, asked)}
    try:
        found = answer(**{name: given[name] for name in signature(answer).parameters})
        for blocks in [found] if isinstance(found, list) else found:
            _show(blocks, as_json, asked.get("plot"))
        if asked.get("html") is not None:
            write_page(description.model, model.resolve().name, asked["html"])
            remark(f"report: {asked['html']}")
    except OptionError as error:
        raise typer.BadParameter(str(error)) from error
    except DataError as error:
        if error.path is not None or "file" not in asked:
            raise
        raise DataError(error.problem, path=asked["file"]) from error


def _answer(verb: str, model: Path) -> tuple[Description, Callable[..., Any]]:
    """The description of a model, and its method for a verb."""
    from mrflearn.describe import describe
    from mrflearn.describe.description import VERBS
    from mrflearn.estimators.loading import load

    loaded = load(model)
    hint = "Ask it in Python."
    try:
        description = describe(loaded)
    except SettingsError:
        others = ()
    else:
        answer = getattr(description, VERBS[verb], None)
        if answer is not None:
            return description, answer
        others = [own for own, method in VERBS.items() if hasattr(description, method)]
        listed = ", ".join(f"`mrflearn {other}`" for other in others)
        hint = f"Ask it otherwise: {listed}; or in Python, by its methods."
    raise SettingsError(
        f"{model} holds a {type(loaded).__name__}, which has no answer to `mrflearn {verb}`. {hint}"
    )


def _rows(asked: Mapping[str, Any]) -> tuple[Any, int]:
    """The rows of the file without missing values, and how many were left out."""
    from mrflearn.cli.field_rows import read_rows, whole_rows

    rows = read_rows(asked["file"], *(asked[name] for name in ROWS))
    whole = whole_rows(rows, asked["file"])
    return whole, len(rows.values) - len(whole)


def _show(blocks: Iterable[Block], as_json: bool, plot: Path | None) -> None:
    """One answer: remarks first, a picture where one is asked for, then text or JSON."""
    from mrflearn.describe.blocks import Note, answer
    from mrflearn.describe.render import as_text

    notes = [block.text for block in blocks if isinstance(block, Note)]
    for note in notes:
        remark(note)
    if plot is not None:
        figures = (block.figure() for block in blocks)
        figure = next((own for own in figures if own is not None), None)
        if figure is not None:
            keep(figure, plot)
    if as_json and len(notes) < len(blocks):
        say_json(answer(blocks))
    elif text := as_text(blocks):
        say(text)
    sys.stdout.flush()  # whoever reads a pipe should not wait for the next answer


def refuse_idle(context: typer.Context, reasons: Mapping[str, str]) -> None:
    """An error where one of these options was given, with the reason why it would do nothing."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name in reasons:
            raise typer.BadParameter(f"{parameter.opts[0]}: {reasons[name]}")
