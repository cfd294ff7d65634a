"""Mean low-rank pair scores under sparse pair moments, with gradients: only non-zeros are touched.

value = sum_k sum_xy moments[k][x, y] left[k, x] . right[k, y]
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable


@final
@dataclass(frozen=True, eq=False)
class SparsePairs:
    """One sparse C x C matrix an offset, and its transpose, by compressed rows."""

    matrices: tuple[Tensor, ...]
    transposed: tuple[Tensor, ...]

    @classmethod
    def of(
        cls,
        entries: Sequence[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]],
        states: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> SparsePairs:
        """From rows, columns and values of each matrix."""
        forth = [_compressed(*entry, states) for entry in entries]
        back = [_compressed(columns, rows, values, states) for rows, columns, values in entries]
        return cls(*(tuple(m.to(device, dtype) for m in both) for both in (forth, back)))


def pair_expectation(
    left: Float[Tensor, "#k c d"], right: Float[Tensor, "#k c d"], pairs: SparsePairs
) -> Float[Tensor, ""]:
    """The mean score; `left` or `right` may be shared by all offsets (k = 1)."""
    value: Tensor = _PairExpectation.apply(left, right, pairs)  # type: ignore[no-untyped-call]
    return value


class _PairExpectation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pairs: SparsePairs) -> Tensor:
        ctx.pairs, ctx.shared = pairs, len(right) < len(pairs.matrices)
        sums = _products(pairs.matrices, right, len(left) < len(pairs.matrices))
        ctx.save_for_backward(left, sums)
        return (left * sums).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor, None]:
        left, sums = ctx.saved_tensors
        by_right = _products(ctx.pairs.transposed, left, ctx.shared)
        return sums * weight, by_right * weight, None


def _products(matrices: tuple[Tensor, ...], vectors: Tensor, add_up: bool) -> Tensor:
    """Each matrix times the vectors of its offset, summed over offsets if asked for."""
    wide = vectors.expand(len(matrices), -1, -1)
    products = [matrix @ own for matrix, own in zip(matrices, wide, strict=True)]
    return sum(products[1:], products[0])[None] if add_up else torch.stack(products)


def _compressed(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], states: int
) -> Tensor:
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(states + 1))
    with warnings.catch_warnings():
        # torch calls this layout "beta", once a process, at whoever comes first.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(starts.astype(np.int64)),
            torch.from_numpy(columns[order].astype(np.int64)),
            torch.from_numpy(values[order]),
            size=(states, states),
            check_invariants=False,
        )
