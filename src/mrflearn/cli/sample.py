"""`mrflearn sample`: new data from a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import remark, say
from mrflearn.cli.composite_answers import sample_documents
from mrflearn.cli.lm_answers import sample_neighbours
from mrflearn.cli.ngram_answers import sample_text
from mrflearn.cli.pcfg_answers import sample_trees
from mrflearn.errors import MrflearnError


def sample(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="How many rows, sentences or documents.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file in place of the screen: .csv, .npy or .txt."),
    ] = None,
) -> None:
    """Draw new rows from a field, exactly where its width allows, or sentences of a language model.

    Example: mrflearn sample spikes-model -n 1000 -o new.csv
    """
    from mrflearn.estimators.loading import load

    fitted = load(model)
    match type(fitted).__name__:
        case "NgramLanguageModel":
            sample_text(fitted, count, seed, output)
        case "CompositeLanguageModel":
            sample_documents(fitted, count, seed, output)
        case "PCFG":
            sample_trees(fitted, count, seed, output)
        case "LanguageModel":
            sample_neighbours(fitted, count, seed, output)
        case "CRF":
            raise MrflearnError(f"{model} is a CRF; it samples labels of given text, in Python.")
        case "HMMTagger" | "JointTagger":
            raise MrflearnError(
                f"{model} is a tagger, which draws no text; `mrflearn tag` asks it."
            )
        case "WordVectors":
            raise MrflearnError(
                f"{model} holds word vectors, no probabilities; `mrflearn neighbors` asks them."
            )
        case _:
            _sample_field(fitted, count, seed, output)


def _sample_field(field: Any, count: int, seed: int, output: Path | None) -> None:
    from mrflearn.data.samples import SampleTable, write_samples

    drawn = field.draw(count, seed=seed)
    remark(f"drawn by: {drawn.method}")
    values = drawn.samples.cpu().numpy()
    if output is not None:
        write_samples(output, SampleTable(None, values))
        return
    for row in values.tolist():
        say(" ".join(map(str, row)))
