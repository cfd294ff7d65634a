"""The questions to a saved model, a verb each; the description of its class answers them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

import mrflearn
from mrflearn.cli.options import refuse_idle
from mrflearn.cli.output import remark, show, write_picture
from mrflearn.describe import DESCRIPTIONS, described_by
from mrflearn.describe.blocks import Block, Note
from mrflearn.describe.description import VERBS, Description, OptionError, parameters
from mrflearn.errors import DataError, SettingsError

ROWS = ("columns", "molecule", "drop_inserts", "focus")  # options that say how rows are read


def ask(ctx: typer.Context, model: Path, *, as_json: bool = False, **asked: Any) -> None:
    """Has the model saved there answer, with those of its arguments that it reads.

    Options that were given and that it does not read are refused; so are verbs it has no answer to.
    """
    verb, loaded = str(ctx.command.name), mrflearn.load(model)
    kind = type(loaded).__name__
    own = _description(verb, kind, f"{model} holds a {kind}")
    read, reason = _reads(verb, own), f"has no effect on a {kind}; leave it out."
    refuse_idle(ctx, {name: reason for name in asked if name not in read})
    if asked.get("file", "") is None and not (asked.get("mutants") or asked.get("scan")):
        raise typer.BadParameter("Missing argument 'FILE'.")
    description = own(loaded)
    method = getattr(description, VERBS[verb])
    given = {**asked, "as_json": as_json, "rows": partial(_rows, loaded, asked)}
    try:
        answers = method(**{name: given[name] for name in parameters(own, verb)})
        for blocks in [answers] if isinstance(answers, list) else answers:
            _draw(blocks, asked.get("plot"))
            show(blocks, as_json=as_json)
        if asked.get("html") is not None:
            description.page(model.resolve().name).write(asked["html"])
            remark(f"report: {asked['html']}")
    except OptionError as error:
        raise typer.BadParameter(str(error)) from error
    except DataError as error:
        if asked.get("file") is not None:
            error.locate(asked["file"])
        raise


def _description(verb: str, kind: str, holder: str) -> type[Description]:
    """The class that answers a verb for a kind of model; an error that says what else to ask."""
    hint = "Ask it in Python."
    if kind in DESCRIPTIONS:
        own = described_by(kind)
        if hasattr(own, VERBS[verb]):
            return own
        others = [other for other, method in VERBS.items() if hasattr(own, method)]
        listed = ", ".join(f"`mrflearn {other}`" for other in others)
        hint = f"Ask it otherwise: {listed}; or in Python, by its methods."
    raise SettingsError(f"{holder}, which has no answer to `mrflearn {verb}`. {hint}")


def _reads(verb: str, own: type[Description]) -> set[str]:
    """The arguments and options of a verb that a description reads."""
    read = {*parameters(own, verb), "as_json", "html"} - own.ignores
    read |= {"plot"} if verb in own.pictures else set()
    return read | ({*ROWS, "file"} if "rows" in read else set())


def options_read(verb: str, words: Iterable[str]) -> set[str] | None:
    """The options that the model among the words of a command reads; None: all that there are."""
    for folder in map(Path, words if verb in VERBS else ()):
        try:
            kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["class"]
            return _reads(verb, _description(verb, kind, str(folder))) | {"help"}
        except (OSError, ValueError, KeyError, TypeError, SettingsError):
            continue
    return None


def _rows(model: Any, asked: Mapping[str, Any]) -> tuple[Any, int]:
    """The rows of the file without missing values, and how many were left out."""
    from mrflearn.cli.train_field import read_rows

    path = asked["file"]
    table = read_rows(path, *(asked[name] for name in ROWS), usual=model.molecule_)
    values = table.values
    model.encode(table)  # errors name the rows of the file
    complete = values[(values >= 0).all(axis=1)]
    left_out = len(values) - len(complete)
    if left_out:
        remark(f"{left_out} rows with missing values are left out")
    if not len(complete):
        raise DataError("every row has a missing value: nothing is left to judge.", path=path)
    return replace(table, values=complete), left_out


def _draw(blocks: Sequence[Block], path: Path | None) -> None:
    """Writes the first figure of an answer, where a picture is asked for."""
    if path is not None and not all(isinstance(block, Note) for block in blocks):
        figures = ((block.figure(), block.caption) for block in blocks)
        figure, caption = next((own for own in figures if own[0] is not None), (None, ""))
        if figure is None:
            raise OptionError(f"--plot: there is nothing to draw in {path}.")
        write_picture(figure, caption, path)
