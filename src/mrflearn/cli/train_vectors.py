"""`mrflearn train vectors`: word vectors from text, without training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master
from mrflearn.cli.options import MinCount, Quiet, Seed, VocabularySize
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.text_source import TextOrMoments, text_source


def vectors(
    command: typer.Context,
    text: TextOrMoments,
    output: Output,
    dims: Annotated[int, typer.Option(min=1, help="Dimensions of the vectors.")] = 100,
    context: Annotated[
        int, typer.Option(min=1, help="Words on each side that count, the nearer the more.")
    ] = 8,
    min_count: MinCount = 1,
    vocabulary_size: VocabularySize = None,
    seed: Seed = 0,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Word vectors straight from pair counts: in closed form, a million words in seconds.

    Then `neighbors` asks for near words, `evaluate` for agreement with people's scores, and
    `convert MODEL vectors.txt` writes the format of word2vec.

    Example: mrflearn train vectors train.txt.gz -o vectors
    """
    from mrflearn.estimators.word_vectors import WordVectors

    model = WordVectors(
        dims,
        context,
        min_count=min_count,
        vocabulary_size=vocabulary_size,
        random_state=seed,
    )
    began = time.perf_counter()
    source = text_source(command, model, text, engine, master, jobs)
    moments = model.count(source) if isinstance(source, Path) else source
    model.fit(moments)
    seconds = time.perf_counter() - began
    model.save(output, overwrite=overwrite)
    answer = {
        "model": str(output),
        "vocabulary": len(model.vocabulary_),
        "dims": dims,
        "context": context,
        "words": moments.words,
        "sentences": moments.sentences,
        "seconds": round(seconds, 4),
    }
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
        return
    _tell(answer)


def _tell(answer: dict[str, Any]) -> None:
    say(
        f"{answer['model']}: {answer['vocabulary']:,} words, {answer['dims']} dimensions, in "
        f"{answer['seconds']:.1f} s"
    )
    say(
        f"from {answer['words']:,} words in {answer['sentences']:,} sentences, "
        f"{answer['context']} on each side"
    )
