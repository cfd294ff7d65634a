"""log Z of a ring by annealed importance sampling: for vocabularies too large to be exact.

[Neal 2001]  Chains go from independent words to the whole field.  Positions K + 1 apart do not
touch, so that a sweep is K + 1 draws of many words at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.neighbour_scores import NeighbourScores


@final
@dataclass(frozen=True)
class RingEstimate:
    """log Z / N of a ring with its standard error, and how many chains carry the weight."""

    log_partition: float
    standard_error: float
    effective_chains: float
    positions: int


@torch.no_grad()
def annealed_ring(
    scores: NeighbourScores,
    generator: torch.Generator,
    *,
    positions: int = 48,
    chains: int = 32,
    temperatures: int = 200,
) -> RingEstimate:
    """An estimate per position from a ring of at least so many; exp(N times it) is unbiased.

    A ring of a few dozen positions stands for any longer one: words that far apart know nothing of
    each other.
    """
    period = scores.offsets + 1
    positions = max(2 * period, -(-positions // period) * period)
    if chains < 2 or temperatures < 1:
        raise InferenceError(
            f"chains={chains}, temperatures={temperatures}: an error bar needs at least 2 chains, "
            "and the path at least 1 step."
        )
    start = scores.unary.softmax(0).expand(chains, -1)
    rings = torch.multinomial(start, positions, replacement=True, generator=generator)
    weights = scores.unary.new_zeros(chains, dtype=torch.float64)
    for step in range(1, temperatures + 1):
        # [Neal 2001, eq. 7] The ratio of two neighbouring densities, at the state before.
        weights += _joint_score(scores, rings) / temperatures
        _sweep(scores, rings, step / temperatures, generator)
    base = positions * float(scores.unary.double().logsumexp(0))
    log_mean = float(weights.logsumexp(0)) - math.log(chains)
    squares = float(weights.softmax(0).square().sum())
    # The standard error of log(mean w) is that of mean w, divided by mean w.
    error = math.sqrt(max(chains * squares - 1, 0.0) / (chains - 1))
    return RingEstimate((base + log_mean) / positions, error / positions, 1 / squares, positions)


def _joint_score(scores: NeighbourScores, rings: Int[Tensor, "n p"]) -> Float[Tensor, "n"]:
    spread = scores.offsets, -1, -1
    total = scores.unary.new_zeros(len(rings), dtype=torch.float64)
    pairs = zip(scores.left.expand(spread), scores.right.expand(spread), strict=True)
    for offset, (left, right) in enumerate(pairs, start=1):
        products = left[rings] * right[rings.roll(-offset, 1)]
        total += products.sum((1, 2)).double()
    if scores.triples is not None:
        total += scores.triples[rings, rings.roll(-1, 1), rings.roll(-2, 1)].sum(1).double()
    return total


def _sweep(
    scores: NeighbourScores,
    rings: Int[Tensor, "n p"],
    share: float,
    generator: torch.Generator,
) -> None:
    chains, positions = rings.shape
    distance = torch.arange(1, scores.offsets + 1, device=rings.device)
    for first in range(scores.offsets + 1):
        here = torch.arange(first, positions, scores.offsets + 1, device=rings.device)
        before = rings[:, (here.unsqueeze(1) - distance) % positions].flatten(0, 1)
        after = rings[:, (here.unsqueeze(1) + distance) % positions].flatten(0, 1)
        chances = scores.conditional(before, after, share).softmax(1)
        drawn = torch.multinomial(chances, 1, generator=generator)
        rings[:, here] = drawn.view(chains, -1)
