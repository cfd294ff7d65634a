"""`mrflearn train tagger`: a joint field of words and tags from a file of tagged words."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.output import Output
from mrflearn.cli.tagger_files import (
    Column,
    ColumnNames,
    FileFormat,
    TaggedFile,
    Valid,
    figures,
    rate,
    read_truth,
    source_of,
    tell_figures,
)


class Bound(StrEnum):
    """What training makes large."""

    exact = "exact"
    chains = "chains"
    stars = "stars"


class Near(StrEnum):
    """How many words a tag sees."""

    own = "1"
    three = "3"


def tagger(
    file: TaggedFile,
    output: Output,
    context: Annotated[int, typer.Option(min=1, max=2, help="How far tags see tags.")] = 1,
    words: Annotated[
        Near, typer.Option(help="A tag sees its own word, or those beside it too.")
    ] = Near.three,
    bound: Annotated[
        Bound,
        typer.Option(help="What is made large: exact likelihood, or a bound (stars: the paper's)."),
    ] = Bound.chains,
    l2: Annotated[float, typer.Option(min=0.0, help="Price of a squared weight.")] = 0.1,
    max_evaluations: Annotated[
        int, typer.Option(min=1, help="Training ends after so many evaluations.")
    ] = 100,
    column: Column = None,
    columns: ColumnNames = None,
    file_format: FileFormat = None,
    valid: Valid = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Learn one Markov random field of words and tags, by a bound on its likelihood.

    Words act through their spelling, so that new words are tagged by what they look like.  The
    time depends on the words and tags there are, not on how long the text is.

    Example: mrflearn train tagger train.conllu --valid dev.conllu -o tagger
    """
    from mrflearn.estimators.tagger import JointTagger

    source = source_of(file, file_format, columns, column)
    model = JointTagger(
        context,
        int(words.value),
        bound=bound.value,
        l2=l2,
        max_evaluations=max_evaluations,
        device=device,
        random_state=seed,
        verbose=not quiet,
    )
    sentences, tags = source.tagged(file)
    began = time.perf_counter()
    model.fit(sentences, tags)
    seconds = time.perf_counter() - began
    model.source_ = source
    rated = None if valid is None else figures(rate(model, *read_truth(source, valid))[0])
    model.save(output)
    answer: dict[str, Any] = {
        "model": str(output),
        "context": context,
        "near_words": int(words.value),
        "bound": bound.value,
        "column": source.column,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "words": len(model.vocabulary_),
        "tags": model.classes_,
        "log_likelihood_per_position": model.bound_,
        "seconds": round(seconds, 4),
    }
    if rated is not None:
        answer["valid"] = rated
    if as_json:
        say_json(answer)
        return
    size = f"{len(answer['tags'])} tags, {answer['words']:,} words"
    say(f"{output}: {size}, learned in {seconds:.2f} s")
    say(f"log-likelihood at least {model.bound_:.4f} nats a position ({bound.value})")
    if rated is not None:
        say(f"{valid}: {tell_figures(rated)}")
