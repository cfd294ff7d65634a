"""Which estimator when: time, memory and error of each on the same samples, measured.

    python experiments/estimators/run.py --scale smoke     # half a minute
    python experiments/estimators/run.py --scale full      # ten minutes on one core

Rows go to OUTPUT/rows-SCALE.jsonl; a run that was stopped goes on where it was.  The table and the
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

import numpy as np
from report import write_report

from mrflearn.graph.builders import graph_from_text
from mrflearn.graph.ising import random_ising
from mrflearn.inference.draw import Drawing

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


def measure(path: Path, scale: Scale) -> list[dict[str, Any]]:
    """A row for each graph, run and estimator; those already there are not measured again."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["graph"], row["run"], row["estimator"]) for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    for graph in scale.graphs:
        for run in range(scale.runs):
            left = [name for name in ESTIMATORS if (graph, run, name) not in done]
            samples = draw(graph, run, scale.samples, path.parent) if left else None
            for name in left:
                point = {"kind": "field", "graph": graph, "run": run, "estimator": name}
                point |= {"samples": scale.samples, "scale": STRENGTH}
                rows.append({**point, **ask({**point, "rows": str(samples)})})
                with path.open("a") as stream:
                    stream.write(json.dumps(rows[-1]) + "\n")
                sys.stderr.write(f"{graph}, run {run + 1}: {name}\n")
    return rows


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
    rows = measure(options.output / f"rows-{options.scale}.jsonl", SCALES[options.scale])
    write_report(rows, options.output)
    sys.stderr.write(f"table and picture: {options.output}\n")


if __name__ == "__main__":
    main()
