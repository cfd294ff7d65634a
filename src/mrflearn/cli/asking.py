"""A verb asked of a saved model: who answers, and which options of the verb that one reads."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import typer

from mrflearn.errors import DataError, SettingsError
from mrflearn.kinds import KINDS, found_in


def ask(verb: str, context: typer.Context, folder: Path, **asked: Any) -> None:
    """Has the model saved there answer, with those of its arguments that it reads.

    Options that were given and that it does not read are refused; so are verbs it has no answer to.
    """
    from mrflearn.estimators.loading import load

    model = load(folder)
    kind = type(model).__name__
    verbs = KINDS[kind].verbs
    if verb not in verbs:
        others = ", ".join(f"`mrflearn {other}`" for other in verbs)
        hint = (
            f"Ask it otherwise: {others}; or in Python, by its methods."
            if verbs
            else "Ask it in Python."
        )
        raise SettingsError(
            f"{folder} holds a {kind}, which has no answer to `mrflearn {verb}`. {hint}"
        )
    answer = found_in("cli", verbs[verb])
    read = signature(answer).parameters
    reason = f"has no effect on a {kind}; leave it out."
    refuse_idle(context, {name: reason for name in asked if name not in read})
    given = {"folder": folder, **asked}
    try:
        answer(model, **{name: value for name, value in given.items() if name in read})
    except DataError as error:
        if error.path is not None or "file" not in asked:
            raise
        raise DataError(error.problem, path=asked["file"]) from error


def refuse_idle(context: typer.Context, reasons: Mapping[str, str]) -> None:
    """An error where one of these options was given, with the reason why it would do nothing."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name in reasons:
            raise typer.BadParameter(f"{parameter.opts[0]}: {reasons[name]}")
