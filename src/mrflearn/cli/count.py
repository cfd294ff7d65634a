"""`mrflearn count`: all that a model of word pairs learns from a text, in a file to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.generated import estimators, with_arguments
from mrflearn.cli.inputs import MOMENTS, holds_moments, input_argument, input_option
from mrflearn.cli.options import Engine, EngineOption, Jobs, Master, place_to_run, shard_paths

COUNTED = ("context", "min_count", "vocabulary_size")  # arguments of the models to be learned


def _checked(path: Path) -> Path:
    if not holds_moments(path):
        raise typer.BadParameter(f"{path}: counts are known by a name in {MOMENTS}.")
    return path


@with_arguments("lm", *COUNTED)
def count(
    command: typer.Context,
    text: Annotated[list[Path], input_argument("Text, one sentence a line (gzip is fine).")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The .moments file to write.", callback=_checked),
    ],
    like: Annotated[
        Path | None,
        input_option("Another .moments file: the same words and context, for --validation."),
    ] = None,
    engine: EngineOption = Engine.local,
    master: Master = None,
    n_jobs: Jobs = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Count the pairs of words of a text once, to learn from the counts as often as you like.

    Then `train lm` and `train vectors` take the file in place of the text, with the same --context.

    Example: mrflearn count shards/*.txt.gz --jobs 2 -o text.moments
    """
    from mrflearn.features.counting import count_text_shards, count_text_shards_like
    from mrflearn.features.moments_file import load_moments, save_moments

    paths = shard_paths(text, engine)
    with place_to_run(engine, master, n_jobs) as place:
        if like is not None:
            reason = "the words and context are those of --like; leave it out."
            refuse_idle(command, dict.fromkeys(COUNTED, reason))
            moments = count_text_shards_like(load_moments(like), paths, place)
        else:
            usual = {name: estimators("lm")["lm"][name][1] for name in COUNTED}
            chosen = usual | {name: value for name, value in given.items() if value is not None}
            size = None if (most := chosen.pop("vocabulary_size")) == "none" else most
            moments = count_text_shards(paths, place, size=size, **chosen)
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
