"""A fixed sparse matrix times a dense one, differentiable in the dense one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
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
        both = matrix.tocsr(), matrix.T.tocsr()
        return cls(*(_compressed(one).to(device, dtype) for one in both))

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


def _compressed(matrix: csr_array) -> Tensor:
    with warnings.catch_warnings():
        # torch calls this layout "beta", once a process, at whoever comes first.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr).long(),
            torch.from_numpy(matrix.indices).long(),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=False,
        )
