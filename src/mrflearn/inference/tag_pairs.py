"""The growth of a chain of tags in which each position is bound to the next two.

A table scores three tags in a row.  Pairs of tags are then the states of a chain of the first
order, whose matrix leads from (a, b) to (b, c) alone; its largest eigenvalue lambda says how much
a ring's partition function grows with each position, and its Perron vectors how often each triple
occurs.  The matrix is never held: a step costs T^3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

MOST_STEPS = 200
TOLERANCE = 1e-10  # of a vector of sum 1; the quotient errs by its square
SMALLEST = 1e-200


@final
@dataclass(frozen=True, eq=False)
class PairVectors:
    """Left and right Perron vectors over pairs of tags, or what power steps have for them."""

    left: Float[Tensor, "t t"]
    right: Float[Tensor, "t t"]

    @classmethod
    def even(cls, tags: int, device: torch.device) -> PairVectors:
        same = torch.full((tags, tags), tags**-2.0, dtype=torch.float64, device=device)
        return cls(same, same)


@torch.no_grad()
def power_steps(table: Float[Tensor, "t t t"], start: PairVectors) -> PairVectors:
    """Vectors after as many steps as they still move by."""
    weights = (table - table.amax()).exp()
    left, right = start.left, start.right
    for step in range(MOST_STEPS):
        before = left, right
        right = _normalised(_onward(weights, right))
        left = _normalised(torch.einsum("abc,ab->bc", weights, left))
        if float((right - before[1]).abs().amax()) <= TOLERANCE:
            break
        if step % 2:  # with M + lambda: no matrix goes round in circles
            left, right = (left + before[0]) / 2, (right + before[1]) / 2
    return PairVectors(left, right)


def log_growth(table: Float[Tensor, "t t t"], vectors: PairVectors) -> Float[Tensor, ""]:
    """log lambda as log (u' M v / u' v); its gradient is how often each triple occurs."""
    ends = vectors.left.log().unsqueeze(2) + vectors.right.log()
    return torch.logsumexp((table + ends).flatten(), 0) - (vectors.left * vectors.right).sum().log()


@torch.no_grad()
def growth_limits(
    table: Float[Tensor, "t t t"], start: PairVectors, tolerance: float = 1e-9, most: int = 500
) -> tuple[float, float]:
    """Proven limits of log lambda.

    [Collatz, Wielandt] lambda <= max (M v) / v for any positive v, and min (M v) / v below it.
    """
    top = table.amax()
    weights = (table - top).exp()
    right, lower, upper = start.right, -math.inf, math.inf
    for step in range(most):
        right = right.clamp_min(SMALLEST)
        after = _onward(weights, right)
        growth = after / right
        lower, upper = max(lower, float(growth.amin())), min(upper, float(growth.amax()))
        if upper <= lower * (1 + tolerance):
            break
        # Every other step is with M + lambda, as in `power_steps`.
        right = _normalised(after + upper * right if step % 2 else after)
    shift = float(top)
    return (math.log(lower) if lower > 0 else -math.inf) + shift, math.log(upper) + shift


def _onward(weights: Tensor, right: Tensor) -> Float[Tensor, "t t"]:
    return torch.einsum("abc,bc->ab", weights, right)


def _normalised(vector: Tensor) -> Tensor:
    return vector / vector.sum()
