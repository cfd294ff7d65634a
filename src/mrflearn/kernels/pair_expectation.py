"""Mean low-rank pair scores under sparse pair moments, with gradients: only non-zeros are touched.

value = sum_k sum_xy moments[k][x, y] left[k, x] . right[k, y]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from mrflearn.kernels.sparse_product import SparseMatrix


def pair_expectation(
    left: Float[Tensor, "#k c d"], right: Float[Tensor, "#k c d"], moments: Sequence[SparseMatrix]
) -> Float[Tensor, ""]:
    """The mean score, summed in float64; `left` or `right` may be shared by all offsets (k = 1)."""
    value: Tensor = _PairExpectation.apply(left, right, moments)  # type: ignore[no-untyped-call]
    return value


class _PairExpectation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, moments: Sequence[SparseMatrix]) -> Tensor:
        ctx.moments, ctx.shared = moments, len(right) < len(moments)
        sums = _products([own.forth for own in moments], right, len(left) < len(moments))
        ctx.save_for_backward(left, sums)
        return (left * sums).sum(dtype=torch.float64)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor, None]:
        left, sums = ctx.saved_tensors
        by_right = _products([own.back for own in ctx.moments], left, ctx.shared)
        weight = weight.to(left.dtype)
        return sums * weight, by_right * weight, None


def _products(matrices: list[Tensor], vectors: Tensor, add_up: bool) -> Tensor:
    """Each matrix times the vectors of its offset, summed over offsets if asked for."""
    wide = vectors.expand(len(matrices), -1, -1)
    products = [matrix @ own for matrix, own in zip(matrices, wide, strict=True)]
    return sum(products[1:], products[0])[None] if add_up else torch.stack(products)
