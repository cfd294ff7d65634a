"""A tighter upper bound on log Z of a translation-invariant field, from a mixture of chains.

By convexity log Z <= sum_l rho_l log Z_l for weights rho of sum 1, where field l keeps the pairs at
one offset only, divided by rho_l.  On a ring these form gcd(l, N) rings of their own, and a ring of
n positions has the partition function trace(M^n) <= C lambda^n:

    log Z / N <= sum_l rho_l ( log lambda_l + rings_l log(C) / N )
    M_l(x, y) = exp( pair_l(x, y) / rho_l + unary(y) + dual_l(y) )      sum_l rho_l dual_l = 0

Largest eigenvalues come from power iteration without ever holding M, and are certified (`perron`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.inference.perron import PerronVectors
from mrflearn.kernels.low_rank_logsumexp import row_logsumexp
from mrflearn.kernels.power_step import power_step
from mrflearn.kernels.star_logsumexp import star_logsumexp


@final
@dataclass(frozen=True, eq=False)
class ChainScores:
    """The logarithms of the matrices M, one an offset: scale_l left_l . right_l + bias_l."""

    left: Float[Tensor, "k c d"]
    right: Float[Tensor, "k c d"]
    bias: Float[Tensor, "k c"]
    weights: Float[Tensor, "k"]

    @classmethod
    def of(
        cls,
        unary: Float[Tensor, "c"],
        left: Float[Tensor, "#k c d"],
        right: Float[Tensor, "#k c d"],
        duals: Float[Tensor, "k c"],
        weights: Float[Tensor, "k"],
    ) -> ChainScores:
        """Scores in which any duals may stand: their weighted mean is taken off."""
        centred = duals - weights @ duals
        spread = len(duals), -1, -1
        return cls(left.expand(spread), right.expand(spread), unary + centred, weights)

    def right_step(self, vectors: Float[Tensor, "k c"]) -> Float[Tensor, "k c"]:
        """log (M v), for vectors given and answered by their logarithms."""
        return row_logsumexp(self.left, self.right, self.bias + vectors, 1 / self.weights)

    def both_steps(self, vectors: PerronVectors) -> PerronVectors:
        """log (M^T u) and log (M v)."""
        scaled = self.left / self.weights.view(-1, 1, 1)
        further = power_step(scaled, self.right, self.bias, vectors.left, vectors.right)
        return PerronVectors(*further)

    def alone(self, k: int) -> ChainScores:
        """The scores of one offset."""
        one = slice(k, k + 1)
        return ChainScores(self.left[one], self.right[one], self.bias[one], self.weights[one])

    def quotients(
        self, left: Float[Tensor, "k c"], right: Float[Tensor, "k c"]
    ) -> Float[Tensor, "k"]:
        """log (u^T M v): at Perron vectors, log lambda plus log (u^T v)."""
        parts = zip(self.left, self.right, self.bias + right, left, self.weights, strict=True)
        values = [
            star_logsumexp(rows[None], columns[None], bias[None], centre, (1 / weight).view(1))
            for rows, columns, bias, centre, weight in parts
        ]
        return torch.stack(values)


def ring_term(
    weights: Float[Tensor, "k"], rings: tuple[int, ...], states: int, positions: int
) -> float:
    """What finite rings add to log Z / N: sum_l rho_l rings_l log(C) / N."""
    mean = sum(float(w) * count for w, count in zip(weights, rings, strict=True))
    return mean * math.log(states) / positions


def rings_of_text(offsets: int, positions: int) -> tuple[int, ...]:
    """How many rings the pairs at offset 1, 2, ... form on one ring of positions."""
    return tuple(math.gcd(offset, positions) for offset in range(1, offsets + 1))


def rings_of_torus(offsets: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many rings the pairs at each offset form on a torus of this shape."""

    def length(offset: tuple[int, ...]) -> int:
        sides = zip(offset, shape, strict=True)
        return math.lcm(*(side // math.gcd(step, side) for step, side in sides))

    return tuple(math.prod(shape) // length(offset) for offset in offsets)
