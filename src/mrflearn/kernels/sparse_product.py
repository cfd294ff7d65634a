"""Fixed sparse matrices times dense ones, differentiable in the dense ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.autograd.function import once_differentiable


@final
@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A matrix by compressed rows, and its transpose, which the gradient needs."""

    forth: Tensor
    back: Tensor

    @classmethod
    def of(cls, matrix: csr_array, dtype: torch.dtype, device: torch.device) -> SparseMatrix:
        """The matrix and its transpose, in numbers of a type and on a device."""
        both = (_as_tensor(one).to(device, dtype) for one in (matrix.tocsr(), matrix.T.tocsr()))
        return cls(*both)

    def __matmul__(self, dense: Float[Tensor, "f t"]) -> Float[Tensor, "c t"]:
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.forth @ dense

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.back @ weight.contiguous(), None


def pair_expectation(
    left: Float[Tensor, "#k c d"], right: Float[Tensor, "#k c d"], moments: Sequence[SparseMatrix]
) -> Float[Tensor, ""]:
    """sum_k sum_xy moments[k][x, y] left[k, x] . right[k, y], summed in float64.

    Only non-zeros are touched; `left` or `right` may be shared by all offsets (k = 1).
    """
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


def _as_tensor(matrix: csr_array) -> Tensor:
    first, column, value = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    return compressed(first, column, value, matrix.shape)


def compressed(
    first: Int[Tensor, " y+1"], column: Int[Tensor, " z"], value: Tensor, size: tuple[int, int]
) -> Tensor:
    """A sparse matrix: row y has the columns and values from `first[y]` to `first[y + 1]`."""
    with warnings.catch_warnings():
        # torch says once a process, at whoever comes first, that this layout is "beta", and
        # some versions that its indices are not checked.
        warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
        return torch.sparse_csr_tensor(first, column, value, size=size, check_invariants=False)
