"""A tighter upper bound on log Z of a translation-invariant field, from a mixture of chains.

By convexity log Z <= sum_l rho_l log Z_l for weights rho of sum 1, where field l keeps the pairs at
one offset only, divided by rho_l.  On a ring these form gcd(l, N) rings of their own, and a ring of
n positions has the partition function trace(M^n) <= C lambda^n:

    log Z / N <= sum_l rho_l ( log lambda_l + rings_l log(C) / N )
    M_l(x, y) = exp( pair_l(x, y) / rho_l + unary(y) + dual_l(y) )      sum_l rho_l dual_l = 0

Largest eigenvalues come from power iteration without ever holding M; whatever positive vector v it
ends with, lambda <= max_x (M v)(x) / v(x) [Collatz, Wielandt], so the reported bound is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

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


@final
@dataclass(frozen=True, eq=False)
class PerronVectors:
    """Logarithms of left and right Perron vectors, or of what power iteration has for them."""

    left: Float[Tensor, "k c"]
    right: Float[Tensor, "k c"]

    @classmethod
    def ones(cls, like: Float[Tensor, "k c"]) -> PerronVectors:
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def overlap(self) -> Float[Tensor, "k"]:
        """log (u^T v)."""
        return (self.left + self.right).logsumexp(1)

    def alone(self, k: int) -> PerronVectors:
        """The vectors of one offset."""
        return PerronVectors(self.left[k : k + 1], self.right[k : k + 1])

    def normalised(self) -> PerronVectors:
        """The same directions, each vector of sum 1."""
        return PerronVectors(_normalised(self.left), _normalised(self.right))


@torch.no_grad()
def power_steps(
    scores: ChainScores, vectors: PerronVectors, steps: int
) -> tuple[PerronVectors, Float[Tensor, "k"]]:
    """Vectors after so many multiplications with M, and log lambda as the last but one had it."""
    for _ in range(steps):
        further = scores.both_steps(vectors)
        growth = PerronVectors(vectors.left, further.right).overlap() - vectors.overlap()
        vectors = further.normalised()
    return vectors, growth


@torch.no_grad()
def follow(
    scores: ChainScores, vectors: PerronVectors, *, tolerance: float, most: int
) -> PerronVectors:
    """Vectors after as many steps as each offset needs until its share of the value stands still.

    A step gives u^T v, u^T M v and u^T M M v: two quotients, whose difference is what is left of
    the error before the step.
    """
    found = []
    for k, weight in enumerate(scores.weights):
        own, chain = vectors.alone(k), scores.alone(k)
        for _ in range(most):
            further = chain.both_steps(own)
            between = PerronVectors(own.left, further.right).overlap()
            moved = own.overlap() + further.overlap() - 2 * between
            own = further.normalised()
            if float(weight * moved.abs()) <= tolerance:
                break
        found.append(own)
    return PerronVectors(
        torch.cat([own.left for own in found]), torch.cat([own.right for own in found])
    )


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """Proven limits of sum_l rho_l log lambda_l, and the right vectors that power steps led to."""

    lower: float
    upper: float
    right: Float[Tensor, "k c"]


@torch.no_grad()
def certify(
    scores: ChainScores,
    start: Float[Tensor, "k c"],
    *,
    tolerance: float = 1e-6,
    most: int = 200,
) -> Certificate:
    """Limits of the chains' value from right vectors `start`, to within `tolerance` if it can."""
    right, lower, upper = start, -math.inf, math.inf
    for step in range(most):
        after = scores.right_step(right)
        # [Collatz, Wielandt] min (Mv/v) <= lambda <= max (Mv/v), for any positive v.
        growth = after - right
        lower = max(lower, float(scores.weights @ growth.amin(1)))
        upper = min(upper, float(scores.weights @ growth.amax(1)))
        if upper - lower <= tolerance:
            break
        if step % 2:
            # Every other step is with M + lambda: a matrix that goes round in circles has further
            # eigenvalues as large as lambda but not as positive, and M alone would go round too.
            middle = growth.logsumexp(1, keepdim=True) - math.log(growth.shape[1])
            after = torch.logaddexp(after, right + middle)
        right = _normalised(after)
    return Certificate(lower, upper, right)


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


def _normalised(vectors: Tensor) -> Tensor:
    return vectors - vectors.logsumexp(1, keepdim=True)
