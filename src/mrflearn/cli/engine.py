"""Where work runs, as the command line names it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor


class Engine(StrEnum):
    """The places that work can run in."""

    local = "local"
    spark = "spark"


EngineOption = Annotated[Engine, typer.Option("--engine", help="local: this machine; or spark.")]
Master = Annotated[
    str | None, typer.Option("--master", help="For spark: spark://HOST:7077, yarn, local[2] ...")
]


def _checked(jobs: int) -> int:
    if jobs < 1 and jobs != -1:
        raise typer.BadParameter(f"{jobs} is no number of cores; -1 stands for all of them.")
    return jobs


Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Cores to work on; -1: all.", callback=_checked)
]


def shard_paths(paths: Sequence[Path], engine: Engine) -> list[Path]:
    """The paths as workers can read them: those of a cluster run in folders of their own."""
    return [path.absolute() if engine is Engine.spark else path for path in paths]


@contextmanager
def place_to_run(engine: Engine, master: str | None, jobs: int) -> Iterator[Executor]:
    """An executor until the block ends."""
    if engine is Engine.spark:
        if master is None:
            raise typer.BadParameter(
                "--engine spark needs --master: spark://HOST:7077, or local[2] to try it out."
            )
        if jobs != 1:
            raise typer.BadParameter("--jobs: on Spark the cluster has its own cores.")
        from mrflearn.execution.spark import Spark

        with Spark(master) as cluster:
            yield cluster
        return
    if master is not None:
        raise typer.BadParameter("--master goes with --engine spark.")
    from mrflearn.execution.processes import executor_for

    with executor_for(jobs) as place:
        yield place
