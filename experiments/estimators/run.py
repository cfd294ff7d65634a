"""Which estimator when: time, memory and error of each on the same samples, measured.

    python experiments/estimators/run.py --scale smoke     # half a minute
    python experiments/estimators/run.py --scale full      # ten minutes on one core

Rows go to OUTPUT/rows.jsonl; a run that was stopped goes on where it was.  The table and the
picture are made from the rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import numpy as np
from report import write_report
from results import Rows

from mrflearn.graph.builders import graph_from_text
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.sampling import Drawing

HERE = Path(__file__).parent
ESTIMATORS = ("ml", "pl", "lap", "consensus", "bp", "pw")
STRENGTH = 0.5  # spin fields and couplings are uniform within plus and minus this


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    graphs: tuple[str, ...]
    samples: int
    runs: int


SCALES = {
    "smoke": Scale(("grid:3x3",), 500, 1),
    "full": Scale(("grid:4x25", "cube:4x4x4", "complete:16", "grid:40x40"), 10_000, 3),
}


def measure(rows: Rows, scale: Scale) -> None:
    """A row for each graph, run and estimator; those already there are not measured again."""
    for graph in scale.graphs:
        for run in range(scale.runs):
            points = [
                {"graph": graph, "run": run, "estimator": name, "samples": scale.samples}
                for name in ESTIMATORS
            ]
            left = [point for point in points if point not in rows]
            if not left:
                continue
            samples = draw(graph, run, scale.samples, rows.path.parent)
            for point in left:
                rows.append(point, ask({**point, "scale": STRENGTH, "rows": str(samples)}))
                sys.stderr.write(f"{graph}, run {run + 1}: {point['estimator']}\n")


def draw(graph: str, run: int, samples: int, folder: Path) -> Path:
    """A file of samples of this run's field."""
    path = folder / f"{graph.replace(':', '-')}-{run}-{samples}.npy"
    if not path.exists():
        field = random_ising(graph_from_text(graph), scale=STRENGTH, seed=run)
        np.save(path, Drawing()(field, samples, seed=run).samples.numpy().astype(np.uint8))
    return path


def ask(point: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own finds."""
    command = [sys.executable, str(HERE / "measure.py"), json.dumps(point)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    parser.add_argument("--output", type=Path, default=HERE / "output")
    options = parser.parse_args()
    rows = Rows(options.output / "rows.jsonl")
    options.output.mkdir(parents=True, exist_ok=True)
    measure(rows, SCALES[options.scale])
    write_report([{**row["point"], **row} for row in rows.latest()], options.output)
    sys.stderr.write(f"table and picture: {options.output}\n")


if __name__ == "__main__":
    main()
