"""Figures 2, 3 and 4 of the LAP paper, and how its time grows with the number of cliques.

Fields are drawn in two settings: parameters uniform in [-1, 1] in the 0/1 gauge with L2 0.1, and
parameters uniform in [-1, 1] on spins with next to no penalty, which has the error and variance of
the published axes.  `--only spins`, `--only "figure 2"`, `--only scaling` choose.  Of rows about
the same time the least counts: `--again` measures it another time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

from measure import ESTIMATORS, GRAPHS, SETTINGS, accuracy, scaling
from report import write_report
from runner import Experiment, Job, Request, main


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    samples: tuple[int, ...]
    runs: dict[str, int]  # by figure; the small grid is cheap, its average over few runs rough
    sides: tuple[int, ...]


SCALES = {
    "smoke": Scale((100, 1_000), {"figure 2": 2}, (6, 18, 58)),
    "full": Scale(
        (100, 1_000, 10_000, 100_000, 1_000_000),
        {"figure 2": 20, "figure 3": 10, "figure 4": 10},
        (6, 18, 58, 183, 577),
    ),
}
SCALING_SAMPLES = 1_000


def jobs(request: Request) -> Iterator[Job]:
    """A point for each setting, figure, run, number of samples and estimator; then the times."""
    scale = SCALES[request.scale]
    for setting in SETTINGS:
        for figure, runs in scale.runs.items():
            seconds = 0.2 if GRAPHS[figure] == "grid:4x4" else 2.0
            for run in range(runs):
                for samples in scale.samples:
                    place = {"figure": figure, "setting": setting, "samples": samples, "run": run}
                    for name in ESTIMATORS:
                        point = {**place, "name": name}
                        yield Job(point, partial(accuracy, point), seconds)
    for side in scale.sides:
        for name in ("LAP_E", "LAP_D", "LAP_P"):
            cliques = 3 * side * side - 2 * side
            own = {"figure": "scaling", "cliques": cliques, "samples": SCALING_SAMPLES}
            work = partial(scaling, side, SCALING_SAMPLES, name)
            yield Job({**own, "name": name}, work, 5 + 6e-5 * cliques)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
