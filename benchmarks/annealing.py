"""Do the error bars of annealed importance sampling cover?  Random rings and grids, exactly known.

For every scale of the couplings: how many runs warn; of those that do not, how many have the exact
log Z within two standard errors; the median standard error per position; seconds per run.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from mrflearn.errors import AccuracyWarning
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.lifted import WordPotentials
from mrflearn.inference.annealed import AnnealedImportance, annealed_ring
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.transfer import ring_log_partition

SCALES = (0.3, 1.0, 2.0, 4.0, 8.0)
WORDS, OFFSETS, DIMS, SIDE = 10, 2, 4, 4


@dataclass(frozen=True)
class Outcome:
    """One run: its error and its standard error per position."""

    error: float
    standard_error: float
    reliable: bool
    seconds: float


def random_ring(scale: float, seed: int) -> WordPotentials:
    """Unary scores of deviation 1, pair scores of rank 4 and of deviation `scale`."""
    generator = torch.Generator().manual_seed(seed)
    unary = torch.randn(WORDS, generator=generator, dtype=torch.float64)
    left, right = torch.randn(2, OFFSETS, WORDS, DIMS, generator=generator, dtype=torch.float64)
    return WordPotentials(unary, scale * left / DIMS**0.5, right)


def ring(scale: float, seed: int) -> Outcome:
    scores = random_ring(scale, seed)
    begun = time.perf_counter()
    found = annealed_ring(scores, torch.Generator().manual_seed(seed))
    seconds = time.perf_counter() - begun
    positions = found.states.shape[1]
    error = float(found.log_partition) - float(ring_log_partition(scores, positions)) / positions
    return Outcome(error, float(found.standard_error), bool(found.reliable), seconds)


def ising(scale: float, seed: int) -> Outcome:
    field = random_ising(grid(SIDE, SIDE), scale, seed)
    begun = time.perf_counter()
    found = AnnealedImportance().estimate(field, torch.Generator().manual_seed(seed))
    seconds = time.perf_counter() - begun
    error = float(found.log_partition - JunctionTree()(field).log_partition)
    bar, positions = float(found.standard_error), SIDE * SIDE
    return Outcome(error / positions, bar / positions, bool(found.reliable), seconds)


def row(kind: str, run: Callable[[float, int], Outcome], scale: float, count: int) -> list[str]:
    outcomes = [run(scale, seed) for seed in range(count)]
    trusted = [one for one in outcomes if one.reliable]
    covered = sum(abs(one.error) <= 2 * one.standard_error for one in trusted)
    return [
        kind,
        f"{scale}",
        f"{count - len(trusted)}/{count}",
        f"{covered}/{len(trusted)}",
        f"{median(one.standard_error for one in outcomes):.4f}",
        f"{median(abs(one.error) for one in outcomes):.4f}",
        f"{max((abs(one.error) for one in trusted), default=0.0):.4f}",
        f"{median(one.seconds for one in outcomes):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="fields of each kind and scale")
    count = parser.parse_args().count
    warnings.simplefilter("ignore", AccuracyWarning)
    header = ["field", "scale", "warned", "covered", "s.e.", "error", "worst", "s"]
    print("  ".join(f"{name:>8}" for name in header))
    for kind, run in (("ring", ring), ("grid", ising)):
        for scale in SCALES:
            print("  ".join(f"{x:>8}" for x in row(kind, run, scale, count)), flush=True)


if __name__ == "__main__":
    main()
