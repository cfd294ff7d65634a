"""`mrflearn train`: one noun a kind of model."""

from __future__ import annotations

import typer

from mrflearn.cli import train_field

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)


@app.callback()
def nouns() -> None:
    """Learn a model from data."""


app.command("field")(train_field.field)
