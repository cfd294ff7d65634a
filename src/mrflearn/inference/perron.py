"""Largest eigenvalues of positive matrices that are only ever multiplied with vectors.

Power iteration finds left and right Perron vectors u and v; whatever positive v it ends with,
lambda <= max_x (M v)(x) / v(x) [Collatz, Wielandt], so that what is reported is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self, final

import torch
from jaxtyping import Float
from torch import Tensor


class PowerScores(Protocol):
    """Matrices M, one a row of vectors, by what they do; `weights` say how much each counts."""

    @property
    def weights(self) -> Float[Tensor, "k"]: ...

    def right_step(self, vectors: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        """log (M v), for vectors given and answered by their logarithms."""

    def both_steps(self, vectors: PerronVectors) -> PerronVectors:
        """log (M^T u) and log (M v)."""

    def alone(self, k: int) -> Self:
        """One of the matrices."""

    def quotients(
        self, left: Float[Tensor, "k n"], right: Float[Tensor, "k n"]
    ) -> Float[Tensor, "k"]:
        """log (u^T M v): at Perron vectors, log lambda plus log (u^T v)."""


@final
@dataclass(frozen=True, eq=False)
class PerronVectors:
    """Logarithms of left and right Perron vectors, or of what power iteration has for them."""

    left: Float[Tensor, "k n"]
    right: Float[Tensor, "k n"]

    @classmethod
    def ones(cls, like: Float[Tensor, "k n"]) -> PerronVectors:
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def overlap(self) -> Float[Tensor, "k"]:
        """log (u^T v)."""
        return (self.left + self.right).logsumexp(1)

    def mixed_with(self, before: PerronVectors, growth: Float[Tensor, "k"]) -> PerronVectors:
        """What M + lambda makes of the vectors before, where M makes these.

        A matrix that goes round in circles has further eigenvalues as large as lambda but not as
        positive, and would take vectors round with it.
        """
        shift = growth.unsqueeze(1)
        return PerronVectors(
            torch.logaddexp(self.left, before.left + shift),
            torch.logaddexp(self.right, before.right + shift),
        )

    def alone(self, k: int) -> PerronVectors:
        """The vectors of one matrix."""
        return PerronVectors(self.left[k : k + 1], self.right[k : k + 1])

    def normalised(self) -> PerronVectors:
        """The same directions, each vector of sum 1."""
        return PerronVectors(_normalised(self.left), _normalised(self.right))


@torch.no_grad()
def power_steps(
    scores: PowerScores, vectors: PerronVectors, steps: int
) -> tuple[PerronVectors, Float[Tensor, "k"]]:
    """Vectors after so many multiplications with M, and log lambda as the last but one had it."""
    for _ in range(steps):
        further = scores.both_steps(vectors)
        growth = PerronVectors(vectors.left, further.right).overlap() - vectors.overlap()
        vectors = further.normalised()
    return vectors, growth


@torch.no_grad()
def follow(
    scores: PowerScores,
    vectors: PerronVectors,
    *,
    tolerance: float,
    most: int,
    gap: float = math.inf,
) -> PerronVectors:
    """Vectors after as many steps as each matrix needs until its share of the value stands still.

    A step gives u^T v, u^T M v and u^T M M v: two quotients, whose difference is what is left of
    the error before the step.  Vectors that hardly reach the states that matter stand still too,
    and others go round in circles: with a finite `gap` steps are mixed with standing still, and go
    on until the proven limit of lambda is that near to the value.
    """
    found = []
    for k, weight in enumerate(scores.weights):
        own, chain = vectors.alone(k), scores.alone(k)
        for step in range(most):
            further = chain.both_steps(own)
            between = PerronVectors(own.left, further.right).overlap()
            moved = own.overlap() + further.overlap() - 2 * between
            value, limit = between - own.overlap(), (further.right - own.right).amax(1)
            still = weight * torch.maximum(moved.abs() / tolerance, (limit - value) / gap)
            if gap < math.inf and step > 1 and step % 2 == 0:
                further = further.mixed_with(own, value)
            own = further.normalised()
            if float(still) <= 1:
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
    right: Float[Tensor, "k n"]


@torch.no_grad()
def certify(
    scores: PowerScores,
    start: Float[Tensor, "k n"],
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
            # With M + lambda, see `PerronVectors.mixed_with`.
            middle = growth.logsumexp(1, keepdim=True) - math.log(growth.shape[1])
            after = torch.logaddexp(after, right + middle)
        right = _normalised(after)
    return Certificate(lower, upper, right)


def _normalised(vectors: Tensor) -> Tensor:
    return vectors - vectors.logsumexp(1, keepdim=True)
