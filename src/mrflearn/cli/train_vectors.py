"""`mrflearn train vectors`: word vectors from text, without training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master, place_to_run, shard_paths
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import MinimumCount, Quiet, Seed, VocabularySize
from mrflearn.cli.output import Output
from mrflearn.cli.report import write_report
from mrflearn.errors import MrflearnError

if TYPE_CHECKING:
    from mrflearn.estimators.word_vectors import WordVectors
    from mrflearn.statistics.moments import Moments


def vectors(
    text: Annotated[
        list[Path],
        input_argument("Text, one sentence a line (gzip and - are fine), or a .moments file."),
    ],
    output: Output,
    dims: Annotated[int, typer.Option(min=1, help="Dimensions of the vectors.")] = 100,
    context: Annotated[
        int, typer.Option(min=1, help="Words on each side that count, the nearer the more.")
    ] = 8,
    minimum_count: MinimumCount = 1,
    vocabulary_size: VocabularySize = None,
    seed: Seed = 0,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
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
        minimum_count=minimum_count,
        vocabulary_size=vocabulary_size,
        random_state=seed,
    )
    began = time.perf_counter()
    moments = _moments(model, text, engine, master, jobs)
    model.fit(moments)
    seconds = time.perf_counter() - began
    model.save(output)
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


def _moments(
    model: WordVectors, paths: list[Path], engine: Engine, master: str | None, jobs: int
) -> Moments:
    """Counts of the text, wherever it is read, or those that a file holds."""
    held = [path for path in paths if path.suffix == ".moments"]
    if held and len(paths) > 1:
        raise MrflearnError(f"{held[0]}: moments are counts already; give one such file alone.")
    if (held or str(paths[0]) == "-") and (engine is Engine.spark or master or jobs != 1):
        raise typer.BadParameter(f"{paths[0]} is read here: no --engine, --master or --jobs.")
    if held:
        from mrflearn.statistics.moments_file import load_moments

        return load_moments(held[0])
    if len(paths) == 1 and engine is Engine.local and master is None and jobs == 1:
        return model.count(paths[0])
    with place_to_run(engine, master, jobs) as place:
        return model.count_shards(shard_paths(paths, engine), place)


def _tell(answer: dict[str, Any]) -> None:
    say(
        f"{answer['model']}: {answer['vocabulary']:,} words, {answer['dims']} dimensions, in "
        f"{answer['seconds']:.1f} s"
    )
    say(
        f"from {answer['words']:,} words in {answer['sentences']:,} sentences, "
        f"{answer['context']} on each side"
    )
