"""`mrflearn sample`: new data from a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import remark, say
from mrflearn.cli.lm_answers import sample_neighbours
from mrflearn.cli.ngram_answers import sample_text


def sample(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many rows.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .npy or .txt file.")
    ] = None,
) -> None:
    """Draw new rows from a field, exactly where its width allows.

    Example: mrflearn sample spikes-model -n 1000 -o new.csv
    """
    from mrflearn.data.samples import SampleTable, write_samples
    from mrflearn.estimators.loading import load

    source = load(model)
    if hasattr(source, "token_scores"):
        sample_text(source, count, seed, output)
        return
    if hasattr(source, "fill"):
        sample_neighbours(source, count, seed, output)
        return
    drawn = source.draw(count, seed=seed)
    remark(f"drawn by: {drawn.method}")
    values = drawn.samples.cpu().numpy()
    if output is not None:
        write_samples(output, SampleTable(None, values))
        return
    for row in values.tolist():
        say(" ".join(map(str, row)))
