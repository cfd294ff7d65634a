"""An upper bound on log Z of a translation-invariant field from a covering by stars.

[Jernite, Rush, Sontag 2015, section 4.4]  K + 1 forests of stars, each a position with its K right
neighbours, hold every edge of the ring once.  All stars are alike, so one of them is enough, and
the bound holds for every value of the dual variables that tie its K + 1 copies of a word.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.star_logsumexp import star_logsumexp


def star_log_partition(
    unary: Float[Tensor, "c"],
    left: Float[Tensor, "#k c d"],
    right: Float[Tensor, "#k c d"],
    duals: Float[Tensor, "k c"],
) -> Float[Tensor, ""]:
    """An upper bound on log Z / N, whatever the duals [eq. 15, 17]; jointly convex in all scores.

    On a ring N must be a multiple of K + 1, so that the stars cover it.
    """
    size = len(duals) + 1
    centre = unary - duals.sum(0)
    return star_logsumexp(left, right, unary + duals, centre, float(size)) / size


def tighten(
    unary: Float[Tensor, "c"],
    left: Float[Tensor, "#k c d"],
    right: Float[Tensor, "#k c d"],
    duals: Float[Tensor, "k c"],
    *,
    steps: int = 200,
    rate: float = 1e3,
    tolerance: float = 0.0,
) -> tuple[Float[Tensor, "k c"], list[float]]:
    """Duals after sub-gradient steps, and the bound on log Z / N before each [Algorithm 1].

    The rate is 10^3 / 2^t, t the number of steps so far after which the bound had not fallen
    [section 6]; steps end where copies of a word agree to within `tolerance` [eq. 13].  The duals
    that gave the lowest bound are handed back.
    """
    best, lowest = duals, float("inf")
    values: list[float] = []
    for _ in range(steps):
        value, disagreement = _value_and_disagreement(unary, left, right, duals)
        if values and value >= values[-1]:
            rate /= 2
        values.append(value)
        if value < lowest:
            best, lowest = duals, value
        if float(disagreement.abs().amax()) <= tolerance:
            break
        duals = duals - rate * disagreement
    return best, values


def _value_and_disagreement(
    unary: Tensor, left: Tensor, right: Tensor, duals: Tensor
) -> tuple[float, Float[Tensor, "k c"]]:
    """The bound, and by how much the copies' marginals differ from the centre's [eq. 16]."""
    leaf = duals.detach().requires_grad_(True)
    with torch.enable_grad():
        value = star_log_partition(unary.detach(), left.detach(), right.detach(), leaf)
        (slope,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), slope * (len(duals) + 1)
