"""The joint tagger beside hidden Markov models and a CRF: table 2, and training with few labels."""

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
from systems import joint_systems

SHARES = (0.01, 0.05, 0.2, 1.0)
CURVE = "joint-K1-L3-chains"


def plan(scale: str) -> list[Point]:
    """The points, quick ones first."""
    if scale == "smoke":
        small = {"evaluations": 8}
        joint = ("joint-K1-L1-stars", "joint-K1-L3-chains", "joint-K2-L1-chains")
        table = [Point("english", s, **small) for s in ("hmm-1", "hmm-2", "crf", *joint)]
        curve = [Point("english", CURVE, 0.1, some, **small) for some in (False, True)]
        return [*table, *curve]
    tasks = ("treebank", "treebank-3000", "ewt-upos", "ewt-xpos")
    points = [Point(task, hmm) for task in tasks for hmm in ("hmm-1", "hmm-2")]
    points += [Point(task, CURVE) for task in tasks]
    points += [Point("treebank", system) for system in (*joint_systems(), "crf")]
    points += _curve("treebank")
    for task in ("ewt-upos", "ewt-xpos"):
        points += [Point(task, system) for system in joint_systems()]
    points += _curve("ewt-upos")  # the CRF of these splits stands in experiments/chain_crf
    return list(dict.fromkeys(points))


def _curve(task: str) -> list[Point]:
    few = SHARES[:-1]
    hmm = [Point(task, "hmm-2", share) for share in few]
    return hmm + [Point(task, CURVE, share, some) for share in few for some in (False, True)]


def jobs(request: Request) -> Iterator[Job]:
    """A job for each point."""
    for point in plan(request.scale):
        work = partial(measured, request.data or Path(), point)
        yield Job(vars(point), work, 40, data=point.task != "english", share=point.task)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
