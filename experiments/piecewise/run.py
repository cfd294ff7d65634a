"""The experiments of Sutton & McCallum 2009: Tables 4 to 9, Figures 3 and 4.

python experiments/piecewise/run.py [--scale smoke|full] [--data FOLDER] [--only TASK ...]

Rows are appended to rows.jsonl in the output folder; what is there already is not run again, so a
run may be stopped at any time, or after --minutes, and taken up later.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import strengths
from measure import measure
from rows import Point, Rows
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
STAGES = ("paper", "trials", "finals")
STAGES_HELP = "the paper's prior; other priors on held-out sentences; the one chosen so, to the end"
SMOKE_SIZE, SMOKE_TESTS, SMOKE_ITERATIONS = 40, 100, 8


def plan(scale: str, tasks: list[str], draws: int | None, size: int | None) -> Iterator[Point]:
    """The points of each task in turn: for each draw, the estimators one after another."""
    for name in tasks:
        task = TASKS[name]
        first = 0 if task.draws == 1 else 1 if name.startswith("chunks") else 0
        count = min(task.draws, draws or task.draws)
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
                    yield Point(name, own, draw, size or task.size, start=start)


def _synthetic(models: int, curves: int, sizes: tuple[int, ...], whole: int) -> Iterator[Point]:
    for draw in range(models):
        for own in ESTIMATORS["hmm"]:
            yield Point("hmm", own, draw, whole)
        for size in sizes if draw < curves else ():
            yield from (Point("hmm", own, draw, size) for own in ("pl", "pwpl"))


def main() -> None:
    options = _options()
    folder = options.output or Path(__file__).parent / f"results-{options.scale}"
    rows = Rows(folder / "rows.jsonl")
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    if "paper" in options.stages:
        points = plan(options.scale, options.only, options.draws, options.size)
        _measure(points, rows, options, until)
    tuned = [task for task in options.only if task in strengths.TUNED]
    for task in tuned if options.scale == "full" and options.size is None else ():
        if "trials" in options.stages:
            _measure(strengths.trials(task), rows, options, until)
        if "finals" in options.stages:
            _measure(strengths.finals(rows, task), rows, options, until)
    if options.rows_only:
        return
    from report import write_report  # needs matplotlib

    write_report(rows, folder)
    print(folder / "report.md")


def _measure(
    points: Iterator[Point], rows: Rows, options: argparse.Namespace, until: float | None
) -> None:
    """Those points that are wanted and not there yet, the data of each draw made once."""
    done = rows.done()
    wanted = (p for p in points if not options.estimators or p.estimator in options.estimators)
    groups = groupby(wanted, lambda p: (p.task, p.draw, p.size, p.held_out and p.c2))
    own, of = map(int, options.share.split("/"))
    for number, ((task, draw, size, _), points) in enumerate(groups):
        mine = number % of == own - 1
        chosen = [point for point in points if mine and point not in done]
        parts = TASKS[task].parts(Path(options.data), draw, size) if chosen else None
        if parts is not None and options.scale == "smoke":
            parts = parts._replace(test=parts.test[:SMOKE_TESTS])
        for point in chosen:
            if until is not None and time.monotonic() > until:
                break
            what = f"{task} {point.estimator} draw {draw}, {size or 'all'}, c2 {point.c2:g}"
            print(what, file=sys.stderr)
            rows.append(vars(point), measure(TASKS[task], parts, point, options.jobs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=["smoke", "full"], default="full")
    parser.add_argument("--data", default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--estimators", nargs="*", help="these alone")
    parser.add_argument("--stages", nargs="*", choices=STAGES, default=STAGES, help=STAGES_HELP)
    parser.add_argument("--draws", type=int, help="so many subsets, folds or generating models")
    parser.add_argument("--size", type=int, help="sentences to train on, not the paper's number")
    parser.add_argument("--minutes", type=float, help="begin nothing new after so long")
    parser.add_argument("--share", default="1/1", help="2/6: of six processes this is the second")
    parser.add_argument("--rows-only", action="store_true", help="no tables, no pictures")
    parser.add_argument("--jobs", type=int, default=2, help="cores")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.data is None and set(options.only) - {"hmm"}:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    options.data = options.data or "."
    return options


if __name__ == "__main__":
    main()
