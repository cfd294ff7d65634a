"""Certified intervals, estimates and marginals of hard networks, by time and width.

Prints the score of each network as the UAI-2022 competition does: 100 (1 - error / error of a
trivial solver), which replaces every factor by its uniform mean.  `uai` and `uai-hard` are folders
of networks with their evidence and published marginals below $MRFLEARN_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from mrflearn.graph import Potentials, condition, from_uai, grid, random_ising
from mrflearn.inference import Anytime, Beliefs, JunctionTree
from mrflearn.io import uai


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


def report(
    name: str, field: Potentials, method: Anytime, exact: float | None, path: Path | None
) -> float | None:
    started = time.perf_counter()
    found = method(field)
    seconds = time.perf_counter() - started
    low, value, high = (float(own.sum()) for own in (found.lower, found.log_partition, found.upper))
    words = [f"{name:20s} {found.kind:18s} [{low:.3f}, {high:.3f}] log Z {value:.4f}"]
    score = None
    if exact is not None:
        slack = 1e-6 * (1 + abs(exact))
        inside = low - slack <= exact <= high + slack
        score = max(0.0, 100 * (1 - abs(value - exact) / abs(trivial(field) - exact)))
        words.append(f"exact {exact:.4f} {'inside' if inside else 'OUTSIDE'} score {score:.2f}")
    if path is not None and Path(f"{path}.MAR").exists():
        words.append("marginals off by {:.4f}, mean {:.5f}".format(*apart(found, path)))
    words.append(f"width {found.width} residual {float(found.residual):.1g} {seconds:.1f} s")
    print("; ".join(words), flush=True)
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", type=float, default=20.0)
    parser.add_argument("--hard-time", type=float, default=60.0)
    parser.add_argument("--memory", type=float, default=8.0, help="GiB")
    parser.add_argument("--max-width", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="names of networks, 'grids' or 'hard'")
    chosen = parser.parse_args()
    data, memory = Path(os.environ["MRFLEARN_DATA"]), int(chosen.memory * 2**30)
    method = Anytime(chosen.time, memory, chosen.max_width)
    scores = []
    for path in sorted((data / "uai").glob("*.uai")):
        if chosen.only and path.stem not in chosen.only:
            continue
        field = field_of(path)
        exact = float(JunctionTree(memory)(field).log_partition.sum())
        scores.append(report(path.stem, field, method, exact, path))
    known = [score for score in scores if score is not None]
    if known:
        print(f"mean PR score of {len(known)} networks: {np.mean(known):.2f}")
    if not chosen.only or "grids" in chosen.only:
        for side in (10, 15, 20, 40):
            field = random_ising(grid(side, side), scale=1.0, seed=side)
            tree = JunctionTree(memory)
            refused = tree.refuses(field.graph) is not None
            exact_value = None if refused else float(tree(field).log_partition.sum())
            report(f"grid {side}x{side}", field, method, exact_value, None)
    if not chosen.only or "hard" in chosen.only:
        for path in sorted((data / "uai-hard").glob("*.uai")):
            hard = Anytime(chosen.hard_time, memory)
            report(path.stem, field_of(path), hard, None, path)


if __name__ == "__main__":
    main()
