"""One power step of both Perron vectors of matrices given by low-rank logarithms.

    M[k](x, y) = exp( left[k, x] . right[k, y] + bias[k, y] )

k: offsets; r, c: rows and columns; d: dimensions.  Vectors are given and answered as logarithms.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels import power_step_cpu
from mrflearn.kernels.low_rank_logsumexp import row_logsumexp


@torch.no_grad()
def power_step(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    rows: Float[Tensor, "k r"],
    columns: Float[Tensor, "k c"],
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k r"]]:
    """log (M^T u) and log (M v), for log u over the rows and log v over the columns.

    On a CPU both come from one pass over the scores; a GPU, where products cost little, takes two.
    """
    if not left.is_cpu:
        return _in_two_passes(left, right, bias, rows, columns)
    steps = map(power_step_cpu.power_step, left, right, bias, rows, columns)
    along_columns, along_rows = zip(*steps, strict=True)
    return torch.stack(along_columns), torch.stack(along_rows)


def power_step_reference(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    rows: Float[Tensor, "k r"],
    columns: Float[Tensor, "k c"],
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k r"]]:
    """What `power_step` computes, from the whole array of scores: the slow twin."""
    scores = left @ right.mT + bias.unsqueeze(1)
    return (scores + rows.unsqueeze(2)).logsumexp(1), (scores + columns.unsqueeze(1)).logsumexp(2)


def _in_two_passes(
    left: Tensor, right: Tensor, bias: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    return bias + row_logsumexp(right, left, rows), row_logsumexp(left, right, bias + columns)
