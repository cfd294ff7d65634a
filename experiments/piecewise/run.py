"""The experiments of Sutton & McCallum 2009: Tables 4 to 9, Figures 3 and 4.

First with the paper's prior, then with others on held-out sentences (`--only True`: these alone),
then with the one chosen so.  `--threads` is the number of cores of a training.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

import results
import strengths
from measure import measured
from report import write_report
from rows import Point, Rows
from runner import Experiment, Job, Request, main
from tasks import TASKS

ESTIMATORS = {
    "names": ("pwpl", "pl", "pw", "ml", "edge-pl", "pw-reweighted"),
    "tags": ("ml", "pwpl", "pl", "pw"),
    "tags-edges": ("ml", "pwpl", "pl", "pw"),
    "tags-words": ("ml", "pwpl", "pl", "pw"),
    "tags-own": ("ml", "pwpl", "pl", "pw"),
    "tags-both": ("ml", "pwpl", "pl", "pw"),
    "chunks-223": ("pwpl", "pl", "pw", "edge-pl", "pw-reweighted", "bp"),
    "chunks-447": ("pwpl", "pl", "pw", "bp"),
    "chunks-grmm": ("pwpl", "pl", "pw", "bp"),
    "chunks-all": ("pwpl", "pw"),
    "seminars": ("pwpl", "pl", "pw", "edge-pl", "pw-reweighted", "bp"),
    "hmm": ("pl", "pw", "pwpl"),
}
SIZES = (10, 20, 50, 100, 200, 500)  # of the learning curves, besides 1,000
CURVES = 30  # generating models that the learning curves are means over
SMOKE_SIZE, SMOKE_TESTS, SMOKE_ITERATIONS = 40, 100, 8


def plan(scale: str) -> Iterator[Point]:
    """The points of each task in turn: for each draw, the estimators one after another."""
    for name, task in TASKS.items():
        first, count = int(task.draws > 1 and name.startswith("chunks")), task.draws
        if scale == "smoke":
            if name == "hmm":
                yield from _synthetic(2, 2, (10, 40), SMOKE_SIZE)
            elif name != "chunks-all":
                small = {"size": SMOKE_SIZE, "iterations": SMOKE_ITERATIONS}
                yield from (Point(name, own, first, **small) for own in ESTIMATORS[name])
        elif name == "hmm":
            yield from _synthetic(count, CURVES, SIZES, task.size or 0)
        else:
            for draw in range(first, first + count):
                for own in ESTIMATORS[name]:
                    start = "chain" if (name, own) == ("seminars", "bp") else "zero"
                    yield Point(name, own, draw, task.size, start=start)


def _synthetic(models: int, curves: int, sizes: tuple[int, ...], whole: int) -> Iterator[Point]:
    for draw in range(models):
        for own in ESTIMATORS["hmm"]:
            yield Point("hmm", own, draw, whole)
        for size in sizes if draw < curves else ():
            yield from (Point("hmm", own, draw, size) for own in ("pl", "pwpl"))


def jobs(request: Request) -> Iterator[Job]:
    """The paper's points, trials of other priors, and trainings with the best of each."""
    rows, tests = Rows(request.rows.path), SMOKE_TESTS if request.scale == "smoke" else None
    points = plan(request.scale)
    for task in strengths.TUNED if request.scale == "full" else ():
        points = chain(points, strengths.trials(task), strengths.finals(rows, task))
    for point in points:
        work = partial(measured, request.data or Path(), point, tests)
        group = point.task, point.draw, point.size, point.held_out and point.c2
        yield Job(vars(point), work, 60, data=point.task != "hmm", share=group)


def report(rows: results.Rows, folder: Path) -> None:
    """The tables and pictures."""
    write_report(Rows(rows.path), folder)


if __name__ == "__main__":
    main(Experiment(jobs, report), Path(__file__).parent, str(__doc__))
