"""Row log-sum-exp of low-rank scores, with gradients, without ever holding a rows x columns array.

    value[k, x] = log sum_y exp( scale[k] * left[k, x] . right[k, y] + bias[k, y] )

These are the messages of the lifted language model (k: offsets; x, y: words; d: dimensions) and
the pattern of attention: one pass over tiles gives the values and the softmax means of the right
vectors (the gradient by `left`); a second pass, by columns, gives the other gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from mrflearn.kernels import choose


def row_logsumexp(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, "k r"]:
    """Log-sum-exp of each row of scores; `left` or `right` may be shared by all offsets (k = 1).

    A bias of -inf leaves its column out; where all are -inf the value is -inf, its gradients zero.
    """
    left, right = _spread(left, right, bias, scale)
    means = torch.is_grad_enabled() and left.requires_grad
    value: Tensor = _RowLogSumExp.apply(left, right, bias, means)  # type: ignore[no-untyped-call]
    return value


def row_logsumexp_reference(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, "k r"]:
    """What `row_logsumexp` computes, from the whole array of scores: the slow twin."""
    left, right = _spread(left, right, bias, scale)
    scores = left @ right.mT + bias.unsqueeze(1)
    empty = (bias == -torch.inf).all(1, keepdim=True)
    # Twice `where`: the gradient of the branch that is not taken must be finite too.
    value = torch.where(empty.unsqueeze(2), 0.0, scores).logsumexp(2)
    return torch.where(empty, -torch.inf, value)


def _spread(
    left: Tensor, right: Tensor, bias: Tensor, scale: float | Tensor
) -> tuple[Tensor, Tensor]:
    factor = scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale
    offsets = len(bias)
    return (left * factor).expand(offsets, -1, -1), right.expand(offsets, -1, -1)


class _RowLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor, means: bool) -> Tensor:
        kernels = choose.low_rank_logsumexp(left)
        inputs = left.detach(), right.detach(), bias.detach()
        value, mean, saved = kernels.forward(*inputs, means=means)
        ctx.run_backward = kernels.backward
        ctx.save_for_backward(value, mean, *saved)
        return value

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, weight: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        value, mean, *saved = ctx.saved_tensors
        left = right = bias = None
        if ctx.needs_input_grad[0]:
            left = weight.unsqueeze(-1) * mean
        if any(ctx.needs_input_grad[1:3]):
            right, bias = ctx.run_backward(value, weight, tuple(saved))
        return left, right, bias, None
