"""`mrflearn sample`: new data from a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.asking import answered
from mrflearn.cli.options import ModelFolder, Seed


@answered
def sample(
    context: typer.Context,
    model: ModelFolder,
    n: Annotated[
        int, typer.Option("--number", "-n", min=1, help="How many rows, sentences or documents.")
    ] = 10,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file in place of the screen: .csv, .npy or .txt."),
    ] = None,
) -> None:
    """Draw new rows from a field, exactly where its width allows, or sentences of a language model.

    Example: mrflearn sample spikes-model -n 1000 -o new.csv
    """
