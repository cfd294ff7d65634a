"""Exact sums over chains in log space, position by position: the plain twin of `chain`.

Letters in shapes: b: sequences; n: positions; s: states.  A transition table is shared by all
positions (s s) or belongs to the step from position t to t + 1 (b n-1 s s).  Scores are in nats,
log-zero is -inf; positions from a sequence's length on do not count.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def log_partition(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """The log-sum of the scores of all assignments; 0 for a sequence of length 0."""
    return _total(forward(unary, transition, lengths), lengths)


def marginals(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n s"], Float[Tensor, "b n-1 s s"]]:
    """log Z, the probability of each state, and of each pair of neighbouring states.

    Both are zero beyond a sequence's length, and all zero where no assignment is possible.
    """
    table = by_position(transition, unary)
    alpha, beta = forward(unary, transition, lengths), backward(unary, transition, lengths)
    total = _total(alpha, lengths)
    shift = torch.where(total == -torch.inf, 0.0, total)
    inside = torch.arange(unary.shape[1], device=unary.device) < lengths[:, None]
    single = (alpha + beta - shift[:, None, None]).exp().where(inside[..., None], 0.0)
    onward = unary[:, 1:] + beta[:, 1:]
    pair = alpha[:, :-1, :, None] + table + onward[:, :, None, :] - shift[:, None, None, None]
    return total, single, pair.exp().where(inside[:, 1:, None, None], 0.0)


def forward(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, "b n s"]:
    """The log-sum over all beginnings that end in a state; held still beyond the length."""
    table = by_position(transition, unary)
    messages = [unary[:, 0]] if unary.shape[1] else []
    for t in range(1, unary.shape[1]):
        moved = torch.logsumexp(messages[-1][:, :, None] + table[:, t - 1], dim=1) + unary[:, t]
        messages.append(torch.where((t < lengths)[:, None], moved, messages[-1]))
    return torch.stack(messages, dim=1) if messages else unary


def backward(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, "b n s"]:
    """The log-sum over all continuations of a state; 0 from the last position on."""
    table = by_position(transition, unary)
    messages = [torch.zeros_like(unary[:, 0])] if unary.shape[1] else []
    for t in range(unary.shape[1] - 1, 0, -1):
        onward = unary[:, t] + messages[-1]
        moved = torch.logsumexp(table[:, t - 1] + onward[:, None, :], dim=2)
        messages.append(torch.where((t < lengths)[:, None], moved, 0.0))
    return torch.stack(messages[::-1], dim=1) if messages else unary


def by_position(
    transition: Float[Tensor, "*b_n s s"], unary: Float[Tensor, "b n s"]
) -> Float[Tensor, "b n-1 s s"]:
    """A view with one table a step, shared or not."""
    steps, states = max(unary.shape[1] - 1, 0), unary.shape[2]
    return transition.expand(unary.shape[0], steps, states, states)


def _total(alpha: Float[Tensor, "b n s"], lengths: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    if not alpha.shape[1]:
        return alpha.new_zeros(alpha.shape[0])
    # Messages are held still beyond the length, so the last one is the end of every sequence.
    return torch.where(lengths > 0, torch.logsumexp(alpha[:, -1], dim=1), 0.0)
