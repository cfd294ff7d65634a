"""Which estimator when: time, memory and error of each on the same samples, measured.

Ten minutes on one core at full scale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

from measure import in_a_process
from report import write_report
from runner import Experiment, Job, Request, main

ESTIMATORS = ("ml", "pl", "lap", "consensus", "bp", "pw")
# Graphs, samples and runs.
SCALES = {
    "smoke": (("grid:3x3",), 500, 1),
    "full": (("grid:4x25", "cube:4x4x4", "complete:16", "grid:40x40"), 10_000, 3),
}


def jobs(request: Request) -> Iterator[Job]:
    """A point for each graph, run and estimator."""
    graphs, samples, runs = SCALES[request.scale]
    for graph in graphs:
        for run in range(runs):
            for name in ESTIMATORS:
                point = {"graph": graph, "run": run, "estimator": name, "samples": samples}
                yield Job(point, partial(in_a_process, point), 8)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
