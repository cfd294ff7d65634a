"""Figures 2, 3 and 4 of the LAP paper, and how its time grows with the number of cliques.

    python experiments/lap/run.py --scale smoke     # a minute
    python experiments/lap/run.py --scale full      # half an hour on one core

Rows go to OUTPUT/rows.jsonl; a run that was stopped goes on where it was.  Tables and
pictures are made from the rows, so they can be made again at any time (--only-draw).  Several
processes may share the work, each with its own --output, --part and --runs: the files of rows are
then joined.  Times are best taken in several rounds, a process for each --side and --auxiliary; of
rows about the same point the least time counts.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import numpy as np
import torch
from report import write_report
from results import Rows

from mrflearn import MarkovField
from mrflearn.graph.builders import graph_from_text
from mrflearn.inference.sampling import Drawing
from mrflearn.models.tabular import TabularModel

GRAPHS = {"figure 2": "grid:4x4", "figure 3": "cube:4x4x4", "figure 4": "chimera:3,3,3"}
ESTIMATORS: dict[str, dict[str, str]] = {
    "ML": {"estimator": "ml"},
    "LAP_E": {"estimator": "lap", "auxiliary": "exact"},
    "LAP_D": {"estimator": "lap", "auxiliary": "dense"},
    "LAP_P": {"estimator": "lap", "auxiliary": "pairwise"},
    "PL": {"estimator": "pl"},
    "consensus": {"estimator": "consensus"},
}
PARTS = [*GRAPHS, "scaling"]
AUXILIARIES = ["LAP_E", "LAP_D", "LAP_P"]
# One and the same small price for all, so that every estimate exists at 100 samples.
L2 = 0.1


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    samples: tuple[int, ...]
    runs: dict[str, int]  # by figure; the small grid is cheap, its average over few runs rough
    sides: tuple[int, ...]
    scaling_samples: int


SCALES = {
    "smoke": Scale((100, 1_000, 10_000), dict.fromkeys(GRAPHS, 2), (6, 18, 58), 1_000),
    "full": Scale(
        (100, 1_000, 10_000, 100_000, 1_000_000),
        {"figure 2": 20, "figure 3": 10, "figure 4": 10},
        (6, 18, 58, 183, 577),
        1_000,
    ),
}


def true_field(graph: str, seed: int = 0) -> TabularModel:
    """Parameters uniform in [-1, 1], in the gauge that vanishes at state 0."""
    empty = TabularModel.zeros(graph_from_text(graph))
    generator = torch.Generator().manual_seed(seed)
    return TabularModel(
        empty.graph,
        tuple(
            2 * torch.rand(v.shape, generator=generator, dtype=v.dtype) - 1 for v in empty.values
        ),
    )


def estimate(graph: str, rows: np.ndarray, settings: dict[str, str]) -> tuple[list[float], float]:
    """The learned parameters, laid end to end, and the processor's seconds it took."""
    begun = time.process_time()  # other work on the machine does not count
    model = MarkovField(graph, l2=L2, **settings).fit(rows)  # type: ignore[arg-type]
    seconds = time.process_time() - begun
    values = torch.cat([v.reshape(-1) for v in model.model_.values])
    return [round(value, 7) for value in values.tolist()], seconds


def measure_accuracy(rows: Rows, scale: Scale, parts: list[str], runs: range) -> None:
    """One row for each figure, number of samples, run and estimator."""
    for figure, graph in GRAPHS.items():
        if figure not in parts:
            continue
        field = true_field(graph).potentials()
        for run in (run for run in runs if run < scale.runs[figure]):
            for samples in scale.samples:
                place: dict[str, Any] = {"figure": figure, "samples": samples, "run": run}
                left = {k: v for k, v in ESTIMATORS.items() if {**place, "name": k} not in rows}
                if not left:
                    continue
                drawn = Drawing()(field, samples, seed=1_000 * run + 1).samples
                data = drawn.numpy().astype(np.uint8)
                for name, settings in left.items():
                    values, seconds = estimate(graph, data, settings)
                    figures = {"seconds": seconds, "load": os.getloadavg()[0], "values": values}
                    rows.append({**place, "name": name}, figures)
                say(f"{figure} ({graph}): {samples:,} samples, run {run + 1}")


def measure_scaling(rows: Rows, scale: Scale, sides: list[int], names: list[str]) -> None:
    """Seconds of LAP on grids of growing size, from correlated random bits."""
    for side in sides:
        cliques, data = 3 * side * side - 2 * side, correlated_bits(side, scale.scaling_samples)
        for name in names:
            point: dict[str, Any] = {"figure": "scaling", "cliques": cliques, "name": name}
            point |= {"samples": scale.scaling_samples}
            if point in rows:
                continue
            graph, repeats = f"grid:{side}x{side}", 1 + min(39, 200_000 // cliques)
            every = [estimate(graph, data, ESTIMATORS[name])[1] for _ in range(repeats)]
            # The least has the least noise; the first also finds out about shapes.
            figures = {"seconds": min(every), "first": every[0]}
            rows.append(point, {**figures, "load": os.getloadavg()[0]})
            say(f"scaling: {cliques:,} cliques by {name} in {min(every):.2f} s")


def correlated_bits(side: int, samples: int) -> np.ndarray:
    """Rows of bits, each of which leans on the one before it."""
    generator = np.random.default_rng(side)
    data = generator.integers(0, 2, (samples, side * side), dtype=np.uint8)
    noise = generator.integers(0, 4, (samples, side * side - 1), dtype=np.uint8)
    data[:, 1:] &= data[:, :-1] | (noise > 0)
    return data


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    parser.add_argument("--output", type=Path, default=Path("experiments/lap/output"))
    parser.add_argument("--only-draw", action="store_true")
    parser.add_argument("--part", action="append", choices=PARTS, help="this one (may be repeated)")
    parser.add_argument(
        "--runs", type=int, nargs=2, default=(0, 1000), help="the first, and one past the last"
    )
    parser.add_argument("--side", action="append", type=int, help="of a grid for the time")
    parser.add_argument("--auxiliary", action="append", choices=AUXILIARIES, help="for the time")
    options = parser.parse_args()
    rows, parts = Rows(options.output / "rows.jsonl"), options.part or PARTS
    if not options.only_draw:
        measure_accuracy(rows, SCALES[options.scale], parts, range(*options.runs))
        if "scaling" in parts:
            sides = options.side or list(SCALES[options.scale].sides)
            measure_scaling(rows, SCALES[options.scale], sides, options.auxiliary or AUXILIARIES)
    write_report([{**row["point"], **row} for row in rows], options.output)
    say(f"tables and pictures: {options.output}")


if __name__ == "__main__":
    main()
