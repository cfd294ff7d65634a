"""`mrflearn count`: all that a model of word pairs learns from a text, in a file to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master, place_to_run, shard_paths
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.options import MinCount, VocabularySize
from mrflearn.cli.text_source import MOMENTS, holds_moments


def _checked(path: Path) -> Path:
    if not holds_moments(path):
        raise typer.BadParameter(f"{path}: counts are known by a name in {MOMENTS}.")
    return path


def count(
    context: typer.Context,
    text: Annotated[list[Path], input_argument("Text, one sentence a line (gzip is fine).")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The .moments file to write.", callback=_checked),
    ],
    neighbours: Annotated[
        int, typer.Option("--context", min=1, help="Neighbours on each side.")
    ] = 2,
    min_count: MinCount = 1,
    vocabulary_size: VocabularySize = None,
    like: Annotated[
        Path | None,
        input_option("Another .moments file: the same words and context, for --validation."),
    ] = None,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Count the pairs of words of a text once, to learn from the counts as often as you like.

    Then `train lm` and `train vectors` take the file in place of the text, with the same --context.

    Example: mrflearn count shards/*.txt.gz --jobs 2 -o text.moments
    """
    from mrflearn.features.counting import count_text_shards, count_text_shards_like
    from mrflearn.features.moments_file import load_moments, save_moments

    paths = shard_paths(text, engine)
    with place_to_run(engine, master, jobs) as place:
        if like is not None:
            reason = "the words and context are those of --like; leave it out."
            refuse_idle(
                context,
                dict.fromkeys(("neighbours", "min_count", "vocabulary_size"), reason),
            )
            moments = count_text_shards_like(load_moments(like), paths, place)
        else:
            moments = count_text_shards(
                paths, place, context=neighbours, size=vocabulary_size, min_count=min_count
            )
    save_moments(moments, output)
    pairs = [len(pair.count) for pair in moments.pairs]
    answer = {
        "moments": str(output),
        "words": moments.words,
        "sentences": moments.sentences,
        "vocabulary": moments.states,
        "context": moments.context,
        "pairs": pairs,
    }
    if as_json:
        say_json(answer)
        return
    say(f"{output}: {moments.words:,} words in {moments.sentences:,} sentences")
    told = ", ".join(f"{many:,} at distance {k}" for k, many in enumerate(pairs, start=1))
    say(f"vocabulary of {moments.states:,}; distinct pairs: {told}")
