"""`mrflearn count`: all that a model of word pairs learns from a text, in a file to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from mrflearn.cli.options import estimators, place_to_run, refuse_idle, shard_paths
from mrflearn.cli.output import say, say_json

COUNTED = ("context", "min_count", "vocabulary_size")  # arguments of the models to be learned


def count(
    ctx: typer.Context,
    text: list[Path],
    output: Path,
    like: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Count the pairs of words of a text once, to learn from the counts as often as you like."""
    from mrflearn.features.counting import count_text_shards
    from mrflearn.features.moments_file import load_moments, save_moments

    usual = {name: estimators("lm")["lm"][name][1] for name in COUNTED}
    asked = {name: given.pop(name) for name in COUNTED}
    chosen = usual | {name: value for name, value in asked.items() if value is not None}
    paths = shard_paths(text, given["engine"])
    with place_to_run(**given) as place:
        if like is not None:
            reason = "the words and context are those of --like; leave it out."
            refuse_idle(ctx, dict.fromkeys(COUNTED, reason))
            moments = count_text_shards(paths, place, like=load_moments(like))
        else:
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
    distances = ", ".join(f"{many:,} at distance {k}" for k, many in enumerate(pairs, start=1))
    say(f"vocabulary of {moments.states:,}; distinct pairs: {distances}")
