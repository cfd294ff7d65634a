"""`mrflearn sample`: new data from a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import remark, say
from mrflearn.cli.asking import load_for
from mrflearn.cli.composite_answers import sample_documents
from mrflearn.cli.lm_answers import sample_neighbours
from mrflearn.cli.ngram_answers import sample_text
from mrflearn.cli.options import ModelFolder, Seed
from mrflearn.cli.pcfg_answers import sample_trees


def sample(
    model: ModelFolder,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="How many rows, sentences or documents.")
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
    fitted = load_for("sample", model)
    match type(fitted).__name__:
        case "NgramLanguageModel":
            sample_text(fitted, count, seed, output)
        case "CompositeLanguageModel":
            sample_documents(fitted, count, seed, output)
        case "PCFG":
            sample_trees(fitted, count, seed, output)
        case "LanguageModel":
            sample_neighbours(fitted, count, seed, output)
        case _:
            _sample_field(fitted, count, seed, output)


def _sample_field(field: Any, count: int, seed: int, output: Path | None) -> None:
    from mrflearn.data.samples import SampleTable, write_samples

    drawn = field.draw(count, seed=seed)
    remark(f"drawn by: {drawn.method}")
    values = drawn.samples.cpu().numpy()
    if output is not None:
        write_samples(output, SampleTable(None, values, field.spins_))
        return
    for row in (2 * values - 1 if field.spins_ else values).tolist():
        say(" ".join(map(str, row)))
