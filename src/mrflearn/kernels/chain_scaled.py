"""Scaled forward-backward over chains in linear space: one matrix product a step.

Letters in shapes: r: rows (tokens) laid out by `Steps`; q: rows with a row before them; s: states;
b: sequences.  The transition table is shared (s s) or one for each step into a row (q s s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps


@dataclass(frozen=True, eq=False)
class Messages:
    """What the recursion leaves: with k the row after i in its sequence,

    P(y_i) = forward_i * backward_i  and  P(y_i, y_k) = forward_i (outer) arriving_k * kernel_k.
    """

    forward: Float[Tensor, "r s"]
    backward: Float[Tensor, "r s"]
    arriving: Float[Tensor, "r s"]
    kernel: Float[Tensor, "*q s s"]
    log_partition: Float[Tensor, "b"]
    trusted: Bool[Tensor, "b"]  # False: something underflowed that may matter; use log space


def forward_backward(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> Messages:
    """Both recursions, and for which sequences float range was enough."""
    weight, kernel, log_shift = _weights(unary, transition, steps)
    forward, scale = _forward(weight, kernel, steps)
    log_partition = steps.totals(scale.log() + log_shift)
    weight /= scale[:, None]
    backward, arriving = _backward(weight, kernel, steps)
    trusted = _trusted(backward.amax(dim=1) / scale, log_partition, steps, unary.shape[1])
    return Messages(forward, backward, arriving, kernel, log_partition, trusted)


def forward_only(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> tuple[Float[Tensor, "b"], Bool[Tensor, "b"]]:
    """log Z, and for which sequences float range was surely enough."""
    weight, kernel, log_shift = _weights(unary, transition, steps)
    _, scale = _forward(weight, kernel, steps)
    # No weight exceeds 1, so no continuation gains more than the product of these 1 / scale.
    gain = steps.totals(-scale.log().clamp(max=0.0)).nan_to_num(nan=torch.inf)
    trusted = gain < math.log(_limit(unary.dtype, steps, unary.shape[1]))
    return steps.totals(scale.log() + log_shift), trusted


def _weights(unary: Tensor, transition: Tensor, steps: Steps) -> tuple[Tensor, Tensor, Tensor]:
    """exp of the scores, scaled to a maximum of 1 in each row and in each kernel column."""
    # Column maxima move from the table to the row they lead to: the state that is best on arrival
    # then weighs 1, however far the scores of other columns reach.
    column = _finite(transition.amax(dim=-2))
    scores = unary.clone()
    scores[steps.starting :] += column
    log_shift = _finite(scores.amax(dim=1))
    weight = scores.sub_(log_shift[:, None]).exp_()
    return weight, (transition - column.unsqueeze(-2)).exp_(), log_shift


def _forward(weight: Tensor, kernel: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    message, scale = torch.empty_like(weight), weight.new_empty(len(weight))
    ones = weight.new_ones(weight.shape[1])
    for t, rows in enumerate(steps.slices):
        here = message[rows]
        if t:
            before = message[steps.slices[t - 1]][: steps.sizes[t]]
            _move(before, steps.tables(kernel, t), here)
            here *= weight[rows]
        else:
            here.copy_(weight[rows])
        torch.mv(here, ones, out=scale[rows])
        here /= scale[rows, None]
    return message, scale


def _backward(weight: Tensor, kernel: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    message, arriving = torch.ones_like(weight), weight  # in place: memory traffic is the cost
    turned = kernel.transpose(-1, -2)
    for t in range(len(steps.sizes) - 1, -1, -1):
        rows = steps.slices[t]
        arriving[rows] *= message[rows]
        if t:
            # Rows beyond the size of step t end here, and keep their ones.
            before = message[steps.slices[t - 1]][: steps.sizes[t]]
            _move(arriving[rows], steps.tables(turned, t), before)
    return message, arriving


def _move(source: Tensor, kernel: Tensor, target: Tensor) -> None:
    if kernel.ndim == 2:
        torch.mm(source, kernel, out=target)
    else:
        torch.bmm(source[:, None], kernel, out=target[:, None])


def _trusted(gain: Tensor, log_partition: Tensor, steps: Steps, states: int) -> Tensor:
    # Mass that underflows at a row is below the least normal number; division by the row's scale
    # and the backward message are what it would have grown by.  So a bound on their product, the
    # gain, bounds the relative error of Z.
    largest = gain.new_zeros(len(steps.lengths))
    gain = gain.nan_to_num(nan=torch.inf)
    largest = largest.scatter_reduce(0, steps.sequence, gain, "amax")
    return (largest < _limit(gain.dtype, steps, states)) & log_partition.isfinite()


def _limit(dtype: torch.dtype, steps: Steps, states: int) -> float:
    """How far lost mass may grow before it shows in the last digits."""
    number = torch.finfo(dtype)
    return number.eps / number.tiny / (states**2 * max(len(steps.sizes), 1))


def _finite(values: Tensor) -> Tensor:
    return values.nan_to_num(neginf=0.0)
