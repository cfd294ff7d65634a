"""Log-partition of the lifted language model's stars [Jernite, Rush, Sontag 2015, Figure 4].

value = log sum_x exp( centre[x] + sum_k row_logsumexp(left, right, bias, scale)[k, x] )
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from mrflearn.kernels import choose, star_logsumexp_cpu
from mrflearn.kernels.low_rank_logsumexp import row_logsumexp, row_logsumexp_reference


def star_logsumexp(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    centre: Float[Tensor, " r"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, ""]:
    """Log-sum-exp over the star's centre of its own score plus the messages of its leaves.

    With gradients on, they are computed together with the value.
    """
    if not torch.is_grad_enabled():
        return (centre + row_logsumexp(left, right, bias, scale).sum(0)).logsumexp(0)
    factor = scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale
    vectors = left * factor, right
    value: Tensor = _StarLogSumExp.apply(*vectors, bias, centre)  # type: ignore[no-untyped-call]
    return value


def star_logsumexp_reference(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    centre: Float[Tensor, " r"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, ""]:
    """What `star_logsumexp` computes, from the whole array of scores: the slow twin."""
    return (centre + row_logsumexp_reference(left, right, bias, scale).sum(0)).logsumexp(0)


class _StarLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor, centre: Tensor) -> Tensor:
        run = star_logsumexp_cpu.value_and_gradients if left.is_cpu else _in_two_passes
        shape = len(bias), -1, -1
        wide = left.detach().expand(shape), right.detach().expand(shape)
        value, *gradients = run(*wide, bias.detach(), centre.detach())
        for side, vectors in enumerate((left, right)):
            if len(vectors) != len(bias):
                gradients[side] = gradients[side].sum(0, keepdim=True)
        ctx.save_for_backward(*gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, ...]:
        # One launch for all of them: on a GPU small evaluations wait for launches, not for work.
        return tuple(torch._foreach_mul(ctx.saved_tensors, weight))


def _in_two_passes(
    left: Tensor, right: Tensor, bias: Tensor, centre: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Value and gradients from the passes of the row log-sum-exp, without an autograd graph."""
    kernels = choose.low_rank_logsumexp(left)
    messages, mean, saved = kernels.forward(left, right, bias, means=True)
    log_weight = centre + messages.sum(0)
    # Bounded below, so that a star without any finite score has finite weights.
    normalised = log_weight.clamp_min(torch.finfo(left.dtype).min / 2).log_softmax(0)
    value = log_weight.amax() - normalised.amax()
    weight = normalised.exp()
    by_right, by_bias = kernels.backward(messages, weight.expand_as(messages), saved)
    return value, weight.unsqueeze(-1) * mean, by_right, by_bias, weight
