"""A factorial CRF of parts of speech and noun phrases, by each estimator, timed on one core.

The setting is one that GRMM (Java) was measured in: the first 223 sentences of CoNLL-2000, features
of the paper's Table 2 on every edge, a Gaussian prior of variance 10, the whole test set.  GRMM is
no package that could be installed beside ours: name its seconds to see ratios, as in

    python benchmarks/piecewise.py --peer pw=254.8 pwpl=43.5 pl=77.3

Each estimator runs in a process of its own; of several runs the quickest counts.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rivals import ask_process

HERE = Path(__file__).parent
ESTIMATORS = ("pwpl", "pl", "pw", "edge-pl", "bp")
CHILD = """
import json, resource, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]  # where the experiment and `results` lie
from pathlib import Path
from measure import measure
from rows import Point
from tasks import TASKS
task = TASKS["chunks-grmm"]
point = Point(task.name, sys.argv[3], 0, task.size)
found = measure(task, task.parts(Path(sys.argv[2]), 0, task.size), point, 1)
found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found))
"""


def ask(estimator: str, data: Path) -> dict[str, Any]:
    """One training and test in a process of its own."""
    experiment = HERE.parent / "experiments" / "piecewise"
    command = [sys.executable, "-c", CHILD, str(experiment), str(data), estimator]
    return ask_process(command)


def row(estimator: str, runs: list[dict[str, Any]], peer: float | None) -> list[str]:
    """Scores and effort of the quickest run."""
    good = [found for found in runs if "error" not in found]
    if not good:
        return [estimator, "fails", *["-"] * 7, runs[0]["error"]]
    best = min(good, key=lambda found: found["train_seconds"])
    scores = [best[name] for name in ("chunk_f1", "pos_accuracy", "joint_accuracy")]
    tokens = 47_377 / best["test_seconds"]
    return [
        estimator,
        *(f"{100 * score:.2f}" for score in scores),
        str(best["iterations"]),
        f"{best['train_seconds']:.1f}",
        f"{best['train_cpu_seconds']:.1f}",
        f"{best['peak_mb']:.0f}",
        f"{tokens:.0f}",
        "-" if peer is None else f"{peer / best['train_seconds']:.1f}x",
    ]


def _seconds(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--peer", nargs="*", type=_seconds, default=[], help="ESTIMATOR=SECONDS")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    peers = dict(options.peer)
    header = ["estimator", "NP F1", "POS", "joint", "iterations", "train s", "cpu s", "peak MB"]
    rows = [[*header, "tokens/s", "faster"]]
    for estimator in options.only:
        print(estimator, file=sys.stderr)
        runs = [ask(estimator, options.data) for _ in range(options.runs)]
        rows.append(row(estimator, runs, peers.get(estimator)))
    widths = [max(len(line[k]) for line in rows) for k in range(len(rows[0]))]
    for line in rows:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
