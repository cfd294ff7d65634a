"""Options and arguments that several commands share: one name, one meaning, told once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.inputs import model_argument

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor


ChunkScheme = StrEnum("ChunkScheme", {"iob1": "IOB1", "iob2": "IOB2", "bioes": "BIOES"})
LikelihoodMethod = StrEnum("LikelihoodMethod", ["exact", "ais", "pl", "bound", "ring"])
Engine = StrEnum("Engine", ["local", "spark"])  # the places that work can run in


def _free(context: typer.Context, path: Path) -> Path:
    if path.exists():
        from mrflearn.models.storage import check_target

        # Both are eager, so their values are known here; a resumed training is gone on with.
        replace = context.params.get("overwrite") or context.params.get("resume")
        check_target(path, overwrite=bool(replace))
    return path


def check_jobs(jobs: int | None) -> int | None:
    """The same number of cores; an error where it is none."""
    if jobs is not None and jobs < 1 and jobs != -1:
        raise typer.BadParameter(f"{jobs} is no number of cores; -1 stands for all of them.")
    return jobs


ModelFolder = Annotated[Path, model_argument("A model directory.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="The model directory to write.", callback=_free)
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", is_eager=True, help="Replace a model that is there already."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Number = Annotated[int, typer.Option("--number", "-n", min=1, help="How many words to show.")]
EngineOption = Annotated[Engine, typer.Option("--engine", help="local: this machine; or spark.")]
Master = Annotated[
    str | None, typer.Option("--master", help="For spark: spark://HOST:7077, yarn, local[2] ...")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", help="Processes that count files; -1: all cores.", callback=check_jobs
    ),
]


def shard_paths(paths: Sequence[Path], engine: Engine) -> list[Path]:
    """The paths as workers can read them: those of a cluster run in folders of their own."""
    return [path.absolute() if engine is Engine.spark else path for path in paths]


def check_place(
    engine: EngineOption = Engine.local, master: Master = None, n_jobs: Jobs = None
) -> None:
    """An error where the options that say where work runs contradict each other."""
    if engine is Engine.local and master is not None:
        raise typer.BadParameter("--master goes with --engine spark.")
    if engine is Engine.spark and master is None:
        raise typer.BadParameter(
            "--engine spark needs --master: spark://HOST:7077, or local[2] to try it out."
        )
    if engine is Engine.spark and n_jobs is not None:
        raise typer.BadParameter("--jobs: on Spark the cluster has its own cores.")


@contextmanager
def place_to_run(engine: Engine, master: str | None, jobs: int | None) -> Iterator[Executor]:
    """An executor until the block ends."""
    check_place(engine, master, jobs)
    if master is not None:
        from mrflearn.execution.spark import Spark

        with Spark(master) as cluster:
            yield cluster
        return
    from mrflearn.execution.processes import executor_for

    with executor_for(jobs or 1) as place:
        yield place
