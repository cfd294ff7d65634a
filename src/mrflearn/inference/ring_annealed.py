"""log Z of a ring by annealed importance sampling: for vocabularies too large to be exact.

Positions K + 1 apart do not touch, so that a sweep is K + 1 draws of many words at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.conditionals import draw

ELEMENTS = 1 << 25  # of the conditional probabilities held at once; bounds memory only


@final
@dataclass(frozen=True)
class RingEstimate:
    """log Z / N of a ring of N positions with its standard error, and what the chains are worth.

    As in `AnnealedEstimate`, whose estimate of log Z this is, divided by the positions.
    """

    log_partition: float
    standard_error: float
    effective_chains: float
    effective_groups: float
    reliable: bool
    temperatures: int
    positions: int


def annealed_ring(
    scores: NeighbourScores,
    generator: torch.Generator,
    *,
    positions: int = 48,
    method: AnnealedImportance | None = None,
) -> RingEstimate:
    """An estimate per position from a ring of at least so many; exp(N times it) is unbiased.

    A ring of a few dozen positions stands for any longer one: words that far apart know nothing of
    each other.  An `AccuracyWarning` is given where the weights collapse.
    """
    period = scores.offsets + 1
    positions = max(2 * period, -(-positions // period) * period)
    method = AnnealedImportance() if method is None else method
    found = method.anneal(_Ring(scores, positions), generator)
    found.warn()
    return RingEstimate(
        float(found.log_partition) / positions,
        float(found.standard_error) / positions,
        float(found.effective_chains),
        float(found.effective_groups),
        bool(found.reliable),
        found.temperatures,
        positions,
    )


@final
@dataclass(frozen=True)
class _Ring:
    """A ring of words, to be annealed; one row of `states` per chain."""

    scores: NeighbourScores
    positions: int

    @property
    def log_states(self) -> Float[Tensor, "1"]:
        allowed = (self.scores.unary > -torch.inf).sum(0, keepdim=True)
        return self.positions * allowed.double().log()

    def start(self, chains: int, generator: torch.Generator) -> Int[Tensor, "n p"]:
        allowed = (self.scores.unary > -torch.inf).to(self.scores.unary.dtype)
        words = torch.multinomial(
            allowed, chains * self.positions, replacement=True, generator=generator
        )
        return words.view(chains, self.positions)

    def score(self, states: Int[Tensor, "n p"]) -> Float[Tensor, "1 n"]:
        scores = self.scores
        spread = scores.offsets, -1, -1
        total = scores.unary[states].double().sum(1)
        pairs = zip(scores.left.expand(spread), scores.right.expand(spread), strict=True)
        for offset, (left, right) in enumerate(pairs, start=1):
            products = left[states] * right[states.roll(-offset, 1)]
            total += products.sum(2).double().sum(1)
        if scores.triples is not None:
            three = states, states.roll(-1, 1), states.roll(-2, 1)
            total += scores.triples[three].double().sum(1)
        return total.unsqueeze(0)

    def sweep(self, states: Int[Tensor, "n p"], generator: torch.Generator, share: float) -> None:
        positions = states.shape[1]
        period = self.scores.offsets + 1
        distance = torch.arange(1, period, device=states.device)
        rows = max(1, ELEMENTS // (self.scores.states * math.ceil(positions / period)))
        for first in range(period):
            here = torch.arange(first, positions, period, device=states.device)
            for part in states.split(rows):
                before = part[:, (here.unsqueeze(1) - distance) % positions].flatten(0, 1)
                after = part[:, (here.unsqueeze(1) + distance) % positions].flatten(0, 1)
                scores = self.scores.conditional(before, after).double().T.mul(share)
                drawn = draw(scores.unsqueeze(1), part[:, here].view(1, -1), generator)
                part[:, here] = drawn.view(len(part), -1)

    def select(self, states: Int[Tensor, "n p"], source: Int[Tensor, "1 n"]) -> Int[Tensor, "n p"]:
        return states[source[0]]
