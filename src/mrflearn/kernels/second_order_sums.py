"""log Z of chains laid out by `Steps` in which each state also meets the one two places before it.

    score(y) = sum_i [ unary_i(y_i) + near(y_{i-1}, y_i) + far(y_{i-2}, y_i) ]

The recursion runs over pairs of states, in linear space and in float64; a position costs s^3.
Sequences that leave even that range, or have no possible assignment, are done again in log space.
Letters in shapes: r: rows (tokens) laid out by `Steps`; s: states; b: sequences; n: tokens of one.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps
from mrflearn.kernels.safe_logsumexp import safe_logsumexp

# How much, in nats, may be lost on the way before it could show in the last digits of log Z.
MOST_LOST = math.log(torch.finfo(torch.float64).eps / torch.finfo(torch.float64).tiny)


def log_partition(
    unary: Float[Tensor, "r s"], near: Float[Tensor, "s s"], far: Float[Tensor, "s s"], steps: Steps
) -> Float[Tensor, "b"]:
    """log Z of each sequence, differentiable in all tables; 0 for a sequence of length 0."""
    rows, tables = unary.double(), (near.double(), far.double())
    value, trusted = _scaled(rows, *tables, steps)
    if not bool(trusted.all()):
        # Once more without the others, whose gradients would spoil those of all.
        inside = trusted[steps.sequence]
        kept, _ = _scaled(rows[inside], *tables, Steps.of(steps.lengths[trusted]))
        again = [
            log_partition_reference(rows[steps.sequence == sequence], *tables)
            for sequence in (~trusted).nonzero()[:, 0].tolist()
        ]
        value = torch.zeros_like(value).index_copy(0, trusted.nonzero()[:, 0], kept)
        value = value.index_copy(0, (~trusted).nonzero()[:, 0], torch.stack(again))
    return value.to(unary.dtype)


def log_partition_reference(
    unary: Float[Tensor, "n s"], near: Float[Tensor, "s s"], far: Float[Tensor, "s s"]
) -> Float[Tensor, ""]:
    """log Z of one sequence in log space: the plain twin."""
    pairs = unary.new_zeros(1, 1)  # state before, state
    for place, own in enumerate(unary):
        beyond = far if place > 1 else far.new_zeros(1, len(far))
        arrived = safe_logsumexp(pairs.unsqueeze(2) + beyond.unsqueeze(1))
        pairs = arrived + own + (near if place else 0.0)
    return safe_logsumexp(pairs.flatten())


def _scaled(
    unary: Float[Tensor, "r s"], near: Float[Tensor, "s s"], far: Float[Tensor, "s s"], steps: Steps
) -> tuple[Float[Tensor, "b"], Bool[Tensor, "b"]]:
    """log Z in linear space, and for which sequences float range was surely enough."""
    top = unary.detach().amax(dim=1)
    weight = (unary - top.unsqueeze(1)).exp()
    shifts = near.detach().amax(), far.detach().amax()
    beside, beyond = (near - shifts[0]).exp(), (far - shifts[1]).exp()
    scales: list[Tensor] = []
    pairs = weight.new_zeros(0)
    for t, rows in enumerate(steps.slices):
        if t == 0:
            pairs = weight[rows].unsqueeze(1)
        else:
            reached = pairs[: steps.sizes[t]].mT
            # The first step has no state two places before it.
            arrived = reached @ beyond if t > 1 else reached.expand(-1, -1, len(near))
            pairs = arrived * beside * weight[rows].unsqueeze(1)
        scales.append(pairs.sum(dim=(1, 2)))
        pairs = pairs / scales[-1].view(-1, 1, 1)
    if not scales:
        value = unary.sum() + unary.new_zeros(len(steps.lengths))  # keeps its place in a gradient
        return value, torch.ones_like(value, dtype=torch.bool)
    logs = torch.cat(scales).log()
    taken = [(steps.lengths - far_back).clamp_min(0) for far_back in (1, 2)]
    value = steps.totals(logs + top) + taken[0] * shifts[0] + taken[1] * shifts[1]
    # No weight exceeds 1, so nothing that was lost could have grown by more than all 1 / scale.
    lost = steps.totals(-logs.detach().clamp(max=0.0)).nan_to_num(nan=torch.inf)
    return value, (lost < MOST_LOST) & value.detach().isfinite()
