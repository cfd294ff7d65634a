"""Exact samples from chains laid out by `Steps`: filter forward, draw backward, in log space.

Letters in shapes as in `chain_scaled`; d: draws.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps, scores_into

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
            after = drawn[:, steps.slices[t + 1]]
            step = scores_into(steps.tables(transition, t + 1), after)
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
        before = alpha[steps.slices[t - 1]][: steps.sizes[t]]
        here, tables = alpha[steps.slices[t]], steps.tables(transition, t)
        for first in range(0, len(here), block):
            part = slice(first, first + block)
            table = tables if tables.ndim == 2 else tables[part]
            here[part] += torch.logsumexp(before[part, :, None] + table, dim=1)
    return alpha
