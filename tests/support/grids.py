"""Ising grids whose exact and approximate answers other programs have given."""

from __future__ import annotations

from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials

# Exact log Z by transfer matrix, confirmed by libDAI's junction tree where it could.
EXACT = {
    (4, 1.0): 16.632677720058343,
    (4, 0.5): 14.721949421159193,
    (10, 1.0): 116.5975182829346,
    (10, 0.5): 95.37350119934787,
    (16, 1.0): 282.38035679637574,
    (16, 0.5): 236.46454474986677,
}


def ising_grid(side: int, scale: float, seed: int = 0) -> Potentials:
    """Fields uniform in (-1, 1), couplings uniform in (-scale, scale)."""
    return random_ising(grid(side, side), scale, seed)
