"""`mrflearn count`: all that a model of word pairs learns from a text, in a file to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from mrflearn.cli import options
from mrflearn.cli.output import report_unknown, show
from mrflearn.describe.blocks import Facts
from mrflearn.features.moments import count_text_shards
from mrflearn.features.moments_file import load_moments, save_moments
from mrflearn.io.corpus import refuse_documents


def count(
    ctx: typer.Context,
    text: list[Path],
    output: Path,
    like: Path | None,
    triples: bool,
    as_json: bool,
    overwrite: bool,
    **given: Any,
) -> None:
    """Count the pairs of words of a text once, to learn from the counts as often as you like."""
    del overwrite  # the check of `output` has seen to it
    asked = {name: given.pop(name) for name in options.COUNTED}
    sizes = {name: value for name, value in asked.items() if value not in (None, "none")}
    if like is not None:
        reason = "the words and context are those of --like; leave it out."
        options.refuse_idle(ctx, dict.fromkeys(asked, reason))
        sizes["like"] = load_moments(like)
    sizes |= {"triples": True} if triples else {}
    refuse_documents(*text)
    with options.place_to_run(**given) as place:
        moments = count_text_shards(options.shard_paths(text, given["engine"]), place, **sizes)
    save_moments(moments, output)
    facts = {"moments": str(output), **moments.sizes()}
    report_unknown(moments.vocabulary, {name: asked[name] for name in options.RARE})
    show([Facts(facts)], as_json=as_json)
