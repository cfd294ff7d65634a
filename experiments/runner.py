"""One command line for every experiment: a plan of points, done in order, resumed, reported.

    python experiments/NAME/run.py --scale smoke        # minutes
    python experiments/NAME/run.py --plan --time 3600   # what would be run, and what would not fit
    python experiments/NAME/run.py --only names,tags ml # points with one of each among their values

An experiment says which points there are and how each is measured; rows go to OUTPUT/rows.jsonl
as they come, and what is there is not measured again.  An estimate of the time of a point is what
its committed row took, else what the experiment says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from results import Point, Rows, Work, key


@dataclass(frozen=True)
class Job:
    """A point and how it is measured.

    seconds: an estimate, on one core or the device.  data: whether data sets are needed.  share:
    points of equal value are done by one process, one after another, as what they read is kept.
    """

    point: Point
    work: Work = field(repr=False)
    seconds: float = 1.0
    data: bool = False
    share: Hashable = None


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    scale: str
    data: Path | None
    device: str
    output: Path
    rows: Rows


@dataclass(frozen=True)
class Experiment:
    """What there is to measure, and what is made of the rows."""

    jobs: Callable[[Request], Iterable[Job]]
    report: Callable[[Rows, Path], Any]


def main(experiment: Experiment, folder: Path, about: str) -> None:
    """The command line of an experiment, whose scripts stand in the folder."""
    options = _options(about)
    output = options.output or folder / (
        "results-full" if options.scale == "full" else "output/smoke"
    )
    data = None if options.data is None else Path(options.data)
    torch.set_num_threads(options.threads)
    request = Request(options.scale, data, options.device, output, Rows(output / "rows.jsonl"))
    if not options.only_draw:
        known = Rows(folder / "results-full" / "rows.jsonl")
        jobs = _chosen(experiment.jobs(request), options, request)
        _perform(jobs, request.rows, options, _took(known))
    if not options.plan:
        output.mkdir(parents=True, exist_ok=True)
        experiment.report(request.rows, output)
        print(output / "report.md")


def _chosen(jobs: Iterable[Job], options: argparse.Namespace, request: Request) -> Iterator[Job]:
    """Those wanted, not there yet, and of this process's share."""
    wanted = [set(word.split(",")) for word in options.only or ()]
    done = set() if options.again else {key(row["point"]) for row in request.rows}
    own, of = map(int, options.share.split("/"))
    for job in jobs:
        # By name, not by place: rows that others write meanwhile may make further jobs.
        group = key(job.point) if job.share is None else repr(job.share)
        values = {str(value) for value in job.point.values()}
        if crc32(group.encode()) % of != own - 1 or not all(word & values for word in wanted):
            continue
        if key(job.point) in done:
            continue
        if job.data and request.data is None:
            print(f"left out, set MRFLEARN_DATA: {key(job.point)}", file=sys.stderr)
        else:
            yield job


def _perform(
    jobs: Iterable[Job], rows: Rows, options: argparse.Namespace, took: dict[str, float]
) -> None:
    """Measures, or prints the plan; what does not fit into the time is named."""
    left, spent = float("inf") if options.time is None else options.time, 0.0
    for job in jobs:
        seconds = took.get(key(job.point), job.seconds)
        fits = spent + seconds <= left
        if options.plan or not fits:
            print(f"{'' if fits else 'does not fit: '}{seconds:,.0f} s: {key(job.point)}")
            spent += seconds if fits else 0.0
        else:
            began = time.perf_counter()
            row = rows.perform(job.point, job.work)
            spent += time.perf_counter() - began
            print(f"{row['took']} s: {key(job.point)}", file=sys.stderr)
    if options.plan:
        print(f"in all {spent:,.0f} s")


def _took(rows: Rows) -> dict[str, float]:
    return {key(row["point"]): row["took"] for row in rows if "took" in row}


def _options(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", choices=("smoke", "full"), default="full")
    parser.add_argument("--data", default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", "-o", type=Path, help="folder of rows, tables and pictures")
    parser.add_argument("--only", nargs="*", help="points that have all of these as values")
    parser.add_argument("--share", default="1/1", help="2/6: of six processes this is the second")
    parser.add_argument("--time", type=float, help="seconds; what would not fit is only named")
    parser.add_argument("--plan", action="store_true", help="print what would be run")
    parser.add_argument("--again", action="store_true", help="measure also what has a row")
    parser.add_argument("--only-draw", action="store_true", help="tables and pictures from rows")
    return parser.parse_args()
