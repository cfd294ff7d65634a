"""Chain CRFs on chunking, names and parts of speech, beside the figures of their peers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

from measure import measured
from points import Point
from report import write_report
from runner import Experiment, Job, Request, main
from tasks import TASKS

CURVES = {"chunks": (250, 500, 1000, 2000, 4000, None), "wsj-random": (100, 300, 1000, None)}
CALIBRATED = ("chunks", "names", "ewt-upos")


def plan(scale: str) -> Iterator[Point]:
    """The points, task by task."""
    for task in TASKS:
        if scale == "smoke":
            yield Point("score", task, 300, 20)
            if task == next(iter(TASKS)):
                yield Point("calibration", task, 300, 20)
            continue
        yield Point("score", task)
        yield from (Point("curve", task, size) for size in CURVES.get(task, ()))
        if task in CALIBRATED:
            yield Point("calibration", task)


def jobs(request: Request) -> Iterator[Job]:
    """A job for each point; the data of a task is read once."""
    for point in plan(request.scale):
        work = partial(measured, request.data or Path(), point)
        yield Job(vars(point), work, 60, data=True, share=point.task)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
