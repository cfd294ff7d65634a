"""Exact samples from chains laid out by `Steps`: filter forward, draw backward, in log space.

Letters in shapes as in `chain_scaled`; d: draws.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps

LARGEST_BLOCK = 2**20  # numbers held at once in one step of the forward pass


def sample(
    unary: Float[Tensor, "r s"],
    transition: Float[Tensor, "*q s s"],
    steps: Steps,
    count: int,
    generator: torch.Generator,
) -> Int[Tensor, "d r"]:
    """Independent draws of all rows; where nothing is possible the states mean nothing."""
    alpha = log_forward(unary, transition, steps)
    drawn = torch.zeros(count, len(unary), dtype=torch.int64, device=unary.device)
    sizes = (*steps.sizes, 0)
    for t in range(len(steps.sizes) - 1, -1, -1):
        rows, going = steps.slices[t], sizes[t + 1]
        logits = alpha[rows].expand(count, -1, -1)
        if going:
            after = steps.slices[t + 1]
            step = _steps_into(drawn[:, after], transition, after, steps)
            logits = torch.cat([logits[:, :going] + step, logits[:, going:]], dim=1)
        # The largest of log p + Gumbel noise is a draw from p; -inf is never the largest.
        noise = torch.empty_like(logits).exponential_(generator=generator)
        drawn[:, rows] = (logits - noise.log()).argmax(dim=-1)
    return drawn


def log_forward(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> Float[Tensor, "r s"]:
    """The log-sum over all beginnings that end in each state of each row."""
    alpha = unary.clone()
    block = max(1, LARGEST_BLOCK // unary.shape[1] ** 2)
    for t in range(1, len(steps.sizes)):
        rows, before = steps.slices[t], steps.slices[t - 1]
        for first in range(0, steps.sizes[t], block):
            last = min(first + block, steps.sizes[t])
            table = transition
            if transition.ndim == 3:
                begin = rows.start - steps.starting
                table = transition[begin + first : begin + last]
            arriving = alpha[before][first:last, :, None] + table
            alpha[rows][first:last] += torch.logsumexp(arriving, dim=1)
    return alpha


def _steps_into(drawn: Tensor, transition: Tensor, rows: slice, steps: Steps) -> Tensor:
    """The scores of moving from each state to the states drawn at these rows (d k s)."""
    if transition.ndim == 2:
        return transition.t()[drawn]
    own = transition[rows.start - steps.starting : rows.stop - steps.starting]
    return own.transpose(1, 2)[torch.arange(len(own), device=own.device), drawn]
