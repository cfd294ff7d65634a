"""What each estimator of a CRF costs, and how well it labels: the table of the estimator guide.

    python experiments/piecewise/guide.py --data FOLDER [--only TASK ...] [--processes N]

Each training runs in a process of its own, on one core, so that its memory is its own.  Rows go to
results-guide/rows.jsonl; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

from results import Rows

HERE = Path(__file__).parent
FOLDER = HERE / "results-guide"
# What is trained, the score it is judged by, and the estimators, dear ones first.
TASKS = {
    "tags-words": ("tag_accuracy", ("ml", "pw", "pwpl", "pl")),
    "seminars": ("token_f1", ("pw", "pwpl", "pl")),
    "chunks-223": ("chunk_f1", ("pw", "pwpl", "pl", "edge-pl")),
    "tags": ("tag_accuracy", ("ml", "pw", "pwpl", "pl")),
}
TITLES = {
    "tags": "chain, 45 labels, features on tokens",
    "tags-words": "chain, 45 labels, words on transitions too",
    "chunks-223": "factorial, 45 and 3 labels",
    "seminars": "skip chain, 5 labels",
}


def child(task: str, estimator: str, data: Path, iterations: int | None) -> dict[str, Any]:
    """One training and its test in this process."""
    from measure import measure
    from rows import Point
    from tasks import TASKS as KNOWN

    own, draw = KNOWN[task], 1
    size = own.size if iterations is None else 40
    parts, held = own.parts(data, draw, size), _held_mb()
    found = measure(own, parts, Point(task, estimator, draw, size, iterations), 1)
    score = found[TASKS[task][0]]
    if isinstance(score, dict):  # of the fields: all alike
        score = sum(score.values()) / len(score)
    kept = ("iterations", "converged", "train_cpu_seconds", "train_seconds", "weights")
    return {"score": 100 * score, "memory_mb": found["peak_mb"] - held} | {
        name: found[name] for name in kept
    }


def _held_mb() -> float:
    """What this process holds now, the data included; where the system does not tell, nothing."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(own.split()[1]) / 1024 for own in lines if own.startswith("VmRSS")), 0.0)


def measured(tasks: list[str], data: Path, processes: int, iterations: int | None) -> None:
    """A row for each task and estimator that has none yet."""
    rows = Rows(FOLDER / "rows.jsonl")
    points = [{"task": task, "estimator": own} for task in tasks for own in TASKS[task][1]]

    def ask(point: dict[str, str]) -> None:
        words = [sys.executable, __file__, "--data", str(data), "--child", *point.values()]
        if iterations is not None:
            words += ["--iterations", str(iterations)]
        ended = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        rows.append(point, json.loads(ended.stdout))

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(ask, [point for point in points if point not in rows]))


def write_guide() -> None:
    """The table, and the picture of scores against processor seconds."""
    from panels import Curve, Panel, draw_panels

    from mrflearn.plots.figure import save

    found = Rows(FOLDER / "rows.jsonl").latest()
    rows = {(row["point"]["task"], row["point"]["estimator"]): row for row in found}
    lines = [
        "| CRF | estimator | score | processor seconds | memory, MB |",
        "|---|---|---|---|---|",
    ]
    panels = []
    for task, title in TITLES.items():
        curves = {}
        for estimator in TASKS[task][1]:
            row = rows.get((task, estimator))
            if row is not None:
                seconds, memory = row["train_cpu_seconds"], row["memory_mb"]
                cells = (title, estimator, f"{row['score']:.1f}", f"{seconds:.0f}", f"{memory:.0f}")
                lines.append("| " + " | ".join(cells) + " |")
                curves[estimator] = Curve([seconds], [row["score"]])
        if curves:
            panels.append(Panel(title, "processor seconds", "accuracy or F1, %", curves))
    (FOLDER / "guide.md").write_text("\n".join(lines) + "\n")
    save(draw_panels(panels, log_heights=False), FOLDER / "guide.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="so few, on 40 sentences: a trial")
    parser.add_argument("--rows-only", action="store_true", help="no table, no picture")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data is None:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    if options.child:
        found = child(*options.child, Path(options.data), options.iterations)
        sys.stdout.write(json.dumps(found) + "\n")
        return
    measured(options.only, Path(options.data), options.processes, options.iterations)
    if not options.rows_only:
        write_guide()


if __name__ == "__main__":
    main()
