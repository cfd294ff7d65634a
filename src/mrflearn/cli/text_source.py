"""What models of word pairs learn from: a text read here, or counts, kept or made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.engine import Engine, place_to_run, shard_paths
from mrflearn.cli.inputs import input_argument
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.estimators.word_vectors import WordSpace
    from mrflearn.features.moments import Moments

MOMENTS = ".moments"
TextOrMoments = Annotated[
    list[Path],
    input_argument(
        "Text, one sentence a line (gzip and - are fine), or a .moments file (see count)."
    ),
]


def holds_moments(path: Path) -> bool:
    """Whether the name says that counts stand in the file."""
    return Path(path.name.removesuffix(".gz")).suffix == MOMENTS


def text_or_moments(path: Path) -> Path | Moments:
    """The moments in a file of them, else the path of a text."""
    from mrflearn.features.moments_file import load_moments

    return load_moments(path) if holds_moments(path) else path


def text_source(
    command: typer.Context,
    model: WordSpace,
    paths: list[Path],
    engine: Engine,
    master: str | None,
    jobs: int,
) -> Path | Moments:
    """What the model is to learn from: one text as it is, several counted where they are read."""
    if holds_moments(paths[0]):
        reason = f"{paths[0]} was counted over its own words already; leave it out."
        refuse_idle(command, dict.fromkeys(("min_count", "vocabulary_size"), reason))
    if engine is Engine.local and len(paths) == 1:
        if master is not None or jobs != 1:
            raise typer.BadParameter(
                "--master goes with --engine spark, and --jobs with several files: one file is "
                "read here by one process."
            )
        return text_or_moments(paths[0])
    for path in paths:
        if holds_moments(path):
            raise DataError("moments are counts already; give one such file alone.", path=path)
    with place_to_run(engine, master, jobs) as place:
        return model.count_shards(shard_paths(paths, engine), place)
