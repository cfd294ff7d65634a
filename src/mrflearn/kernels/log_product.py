"""Products of matrices given by their logarithms, with gradients, as one ordinary product each.

value[x, y] = log sum_z exp( a[x, z] + b[y, z] )
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def log_product(a: Float[Tensor, "m c"], b: Float[Tensor, "n c"]) -> Float[Tensor, "m n"]:
    """The logarithm of exp(a) exp(b)^T; rows are scaled so that their largest entry is 1.

    A row of -inf alone gives -inf.
    """
    value: Tensor = _LogProduct.apply(a, b)  # type: ignore[no-untyped-call]
    return value


@torch.no_grad()
def log_product_limits(
    a: Float[Tensor, "m c"], b: Float[Tensor, "n c"]
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"]]:
    """`log_product`, and the same from below: -inf where all terms of a sum are out of range."""
    sums, top_a, top_b = _sums(a, b)
    top = top_a + top_b.T
    return _positive(sums).log() + top, sums.log() + top


class _LogProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        sums, top_a, top_b = _sums(a, b)
        ctx.save_for_backward(a, b, top_a, top_b, _positive(sums))
        return _positive(sums).log() + top_a + top_b.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b, top_a, top_b, sums = ctx.saved_tensors
        share = slope / sums
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            by_a = (share @ _weights(b, top_b)).mul_(_weights(a, top_a))
        if ctx.needs_input_grad[1]:
            by_b = (share.T @ _weights(a, top_a)).mul_(_weights(b, top_b))
        return by_a, by_b


def _sums(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    top_a, top_b = (part.amax(1, keepdim=True) for part in (a, b))
    return _weights(a, top_a) @ _weights(b, top_b).T, top_a, top_b


def _weights(scores: Tensor, top: Tensor) -> Tensor:
    return (scores - top.masked_fill(top == -torch.inf, 0.0)).exp_()


def _positive(sums: Tensor) -> Tensor:
    # Terms below the type's range count as its least number: a vector stays positive.
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)
