"""Chain CRFs on chunking, names and parts of speech, beside the figures of their peers.

python experiments/chain_crf/run.py [--scale smoke|full] [--data FOLDER] [--only TASK ...]

Rows are appended to rows.jsonl in the output folder; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

from measure import calibration, score
from points import Point
from report import write_report
from results import Rows
from tasks import TASKS

CURVES = {"chunks": (250, 500, 1000, 2000, 4000), "wsj-random": (100, 300, 1000)}
MEASURES = {"score": score, "curve": score, "calibration": calibration}


def plan(scale: str, tasks: list[str]) -> list[Point]:
    """The points, quick ones first."""
    if scale == "smoke":
        small = {"sentences": 300, "iterations": 20}
        return [Point("score", task, **small) for task in tasks] + [
            Point("calibration", tasks[0], **small)
        ]
    points = [Point("score", task) for task in tasks]
    for task, sizes in CURVES.items():
        points += [Point("curve", task, size) for size in (*sizes, None) if task in tasks]
    return points + [
        Point("calibration", task) for task in ("chunks", "names", "ewt-upos") if task in tasks
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=["smoke", "full"], default="full")
    parser.add_argument("--data", default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--output", type=Path, help="folder of rows, tables and pictures")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    folder = options.output or Path(__file__).parent / f"results-{options.scale}"
    rows = Rows(folder / "rows.jsonl")
    for task in options.only:
        points = [p for p in plan(options.scale, options.only) if p.task == task]
        open_points = [point for point in points if vars(point) not in rows]
        if not open_points:
            continue
        parts = TASKS[task].parts(Path(options.data))
        for point in open_points:
            print(f"{point.kind} {task} {point.sentences or 'all'}", file=sys.stderr)
            rows.append(vars(point), MEASURES[point.kind](TASKS[task], parts, point))
    write_report(rows, folder)
    print(folder / "report.md")


if __name__ == "__main__":
    main()
