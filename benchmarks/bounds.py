"""Certified intervals, estimates, marginals and best states of hard networks, by time and width.

Prints the score of each network as the UAI-2022 competition does: 100 (1 - error / error of a
trivial solver), which replaces every factor by its uniform mean.  `uai` and `uai-hard` are folders
of networks with their evidence and published marginals below $MRFLEARN_DATA; random grids and
random graphs of 200 variables follow.  Ends with 1 where any interval lacks the exact value, or any
best assignment is impossible.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from mrflearn.graph import Potentials, condition, from_uai, grid, random_ising
from mrflearn.graph.builders import pairwise
from mrflearn.inference import Anytime, Beliefs, BranchAndBound, JunctionTree
from mrflearn.io import uai

EXACT = 2**31  # bytes of tables that log Z may take where it is only to be compared with
VARIABLES = 200  # of random graphs


def field_of(path: Path) -> Potentials:
    evidence = Path(f"{path}.evid")
    observed = uai.read_evidence(evidence) if evidence.exists() else {}
    return condition(from_uai(uai.read_network(path)), observed)


def trivial(field: Potentials) -> float:
    """log Z where every factor is its uniform mean."""
    total = float(field.graph.states.double().log().sum())
    for index in range(len(field.tables)):
        scores = field.factor_scores(index).flatten(1).double()
        total += float((scores.logsumexp(1) - np.log(scores.shape[1])).sum())
    return total


def apart(found: Beliefs, path: Path) -> tuple[float, float]:
    """The largest and the mean difference from the published marginals."""
    published = uai.read_marginals(Path(f"{path}.MAR"))
    rows = [
        np.abs(np.array(row) - found.variables[v, : len(row)].numpy())
        for v, row in enumerate(published)
    ]
    joined = np.concatenate(rows)
    return float(joined.max()), float(joined.mean())


def random_graph(edges: int, seed: int) -> Potentials:
    """Two-state variables, fields and couplings uniform in (-1, 1), so many random pairs."""
    draw = np.random.default_rng(seed)
    ends = np.stack(np.triu_indices(VARIABLES, 1), axis=1)
    chosen = torch.from_numpy(draw.choice(ends, edges, replace=False))
    return random_ising(pairwise(torch.full((VARIABLES,), 2), chosen), scale=1.0, seed=seed)


def log_partition(field: Potentials) -> float | None:
    """The exact value, where tables of `EXACT` bytes suffice."""
    tree = JunctionTree(EXACT)
    return None if tree.refuses(field.graph) else float(tree(field).log_partition.sum())


class Report:
    """Prints a line for every problem, and keeps what is to be said of all."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.outside: list[str] = []

    def interval(
        self, name: str, field: Potentials, method: Anytime, path: Path | None, known: bool = True
    ) -> None:
        exact = log_partition(field) if known else None
        started = time.perf_counter()
        found = method(Potentials(replace(field.graph), field.tables))
        seconds = time.perf_counter() - started
        triple = found.lower, found.log_partition, found.upper
        low, value, high = (float(own.sum()) for own in triple)
        words = [f"{name:20s} {found.kind:18s} [{low:.3f}, {high:.3f}] log Z {value:.4f}"]
        if exact is not None:
            slack = 1e-6 * (1 + abs(exact))
            inside = low - slack <= exact <= high + slack
            score = max(0.0, 100 * (1 - abs(value - exact) / abs(trivial(field) - exact)))
            words.append(f"exact {exact:.4f} {'inside' if inside else 'OUTSIDE'} score {score:.2f}")
            self.outside += [] if inside else [name]
            self.scores += [] if path is None else [score]
        if path is not None and Path(f"{path}.MAR").exists():
            words.append("marginals off by {:.4f}, mean {:.5f}".format(*apart(found, path)))
        words.append(f"width {found.width} residual {float(found.residual):.1g} {seconds:.1f} s")
        print("; ".join(words), flush=True)

    def best(self, name: str, field: Potentials, seconds: float) -> None:
        started = time.perf_counter()
        found = BranchAndBound(seconds=seconds).best(field)
        took = time.perf_counter() - started
        score = float(field.score(found.assignment).sum())
        self.outside += [] if score > -np.inf else [name]
        print(f"{name:20s} best states {score:.4f} {found.certificate}; {took:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", type=float, default=20.0)
    parser.add_argument("--hard-time", type=float, default=60.0)
    parser.add_argument("--memory", type=float, default=8.0, help="GiB")
    parser.add_argument("--max-width", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="networks by name, 'grids', 'graphs' or 'hard'")
    chosen = parser.parse_args()
    data, memory = Path(os.environ["MRFLEARN_DATA"]), int(chosen.memory * 2**30)
    method, report = Anytime(chosen.time, memory, chosen.max_width), Report()

    def wanted(name: str) -> bool:
        return not chosen.only or name in chosen.only

    for path in sorted((data / "uai").glob("*.uai")):
        if wanted(path.stem):
            report.interval(path.stem, field_of(path), method, path)
            report.best(path.stem, field_of(path), chosen.time)
    if report.scores:
        print(f"mean PR score of {len(report.scores)} networks: {np.mean(report.scores):.2f}")
    for side in (10, 15, 20, 30, 40) if wanted("grids") else ():
        field = random_ising(grid(side, side), scale=1.0, seed=side)
        report.interval(f"grid {side}x{side}", field, method, None)
    for edges in (220, 240, 260, 300, 400) if wanted("graphs") else ():
        name = f"graph of {VARIABLES}, {edges}"
        report.interval(name, random_graph(edges, edges), method, None)
    for path in sorted((data / "uai-hard").glob("*.uai")) if wanted("hard") else ():
        hard = Anytime(chosen.hard_time, memory)
        report.interval(path.stem, field_of(path), hard, path, known=False)
        report.best(path.stem, field_of(path), chosen.hard_time)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    if report.outside:
        sys.exit(f"wrong: {', '.join(report.outside)}")


if __name__ == "__main__":
    main()
