"""An upper bound on log Z / N as it is reported: proven, in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.chain_bound import ChainScores, ring_term, rings_of_text
from mrflearn.inference.perron import PowerScores, certify
from mrflearn.inference.star_bound import star_log_partition
from mrflearn.inference.window_bound import WindowScores

BoundName = Literal["stars", "chains", "windows"]
FIRST_RATIO = 0.087  # the weight of each offset over that of the one before it
QUICK_STEPS, SURE_STEPS = 100, 10


@final
@dataclass(frozen=True)
class Ceiling:
    """log Z / N is at most `value`, plus what finite rings add to it; proven but for rounding.

    `slack` is how much lower it might be for the same dual variables.
    """

    bound: BoundName
    value: float
    slack: float
    weights: tuple[float, ...]

    def per_position(
        self, positions: int, states: int, rings: tuple[int, ...] | None = None
    ) -> float:
        """The bound on log Z / N for so many positions: one ring, unless `rings` says otherwise."""
        if self.bound == "stars":
            return self.value
        if self.bound == "windows":
            return self.value + 2 * math.log(states) / positions
        rings = rings or rings_of_text(len(self.weights), positions)
        return self.value + ring_term(torch.tensor(self.weights), rings, states, positions)


def default_weights(offsets: int, ratio: float = FIRST_RATIO) -> tuple[float, ...]:
    """Weights of the chains that fall off with distance, as the information of words does."""
    raw = [ratio**k for k in range(offsets)]
    return tuple(weight / sum(raw) for weight in raw)


@torch.no_grad()
def star_ceiling(scores: NeighbourScores, duals: Float[Tensor, "k c"]) -> Ceiling:
    """The stars' bound, which every evaluation gives, once more in double precision."""
    value = star_log_partition(*scores.double().pairwise, duals.double())
    return Ceiling("stars", float(value), 0.0, (1 / (len(duals) + 1),) * len(duals))


@torch.no_grad()
def chain_ceiling(
    scores: NeighbourScores,
    duals: Float[Tensor, "k c"],
    weights: tuple[float, ...],
    start: Float[Tensor, "k c"] | None = None,
    tolerance: float = 1e-5,
) -> Ceiling:
    """The chains' bound, certified in double precision after power steps in the scores' own."""
    rho = torch.tensor(weights, dtype=torch.float64, device=duals.device)
    begin = torch.zeros_like(duals) if start is None else start
    quick = ChainScores.of(*scores.pairwise, duals, rho.to(duals))
    sure = ChainScores.of(*scores.double().pairwise, duals.double(), rho)
    return Ceiling("chains", *_certified(quick, sure, begin, tolerance), weights)


@torch.no_grad()
def window_ceiling(
    scores: NeighbourScores, start: Float[Tensor, "1 w"] | None = None, tolerance: float = 1e-6
) -> Ceiling:
    """The bound of windows of two words, certified in the same way."""
    begin = scores.unary.new_zeros(1, scores.states**2) if start is None else start
    quick, sure = WindowScores.of(scores), WindowScores.of(scores.double())
    return Ceiling("windows", *_certified(quick, sure, begin, tolerance), (1.0,))


def _certified(
    quick: PowerScores, sure: PowerScores, start: Tensor, tolerance: float
) -> tuple[float, float]:
    """The proven limit, and how much lower the truth might be."""
    rough = certify(quick, start, tolerance=tolerance / 2, most=QUICK_STEPS)
    found = certify(sure, rough.right.double(), tolerance=tolerance, most=SURE_STEPS)
    return found.upper, found.upper - found.lower
