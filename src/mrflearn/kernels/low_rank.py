"""Log-sum-exps of low-rank scores, with gradients, without ever holding a rows x columns array.

    scores[k](x, y) = scale[k] * left[k, x] . right[k, y] + bias[k, y]

    row_logsumexp:   value[k, x] = log sum_y exp( scores[k](x, y) )
    star_logsumexp:  value = log sum_x exp( centre[x] + sum_k row_logsumexp[k, x] )
    power_step:      log (M^T u) and log (M v), where M[k] = exp(scores[k])

These are the messages, the stars [Jernite, Rush, Sontag 2015, Figure 4] and the power steps of the
lifted language model (k: offsets; x, y: words; d: dimensions), and the pattern of attention: one
pass over tiles gives the values and the softmax means of the right vectors (the gradient by
`left`); a second pass, by columns, gives the other gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from mrflearn.kernels import low_rank_cpu

WIDEST_FOR_TRITON = 256  # dimensions whose tiles fit the shared memory of a multiprocessor


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
    vectors = left * _factor(scale), right
    value: Tensor = _StarLogSumExp.apply(*vectors, bias, centre)  # type: ignore[no-untyped-call]
    return value


@torch.no_grad()
def power_step(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    rows: Float[Tensor, "k r"],
    columns: Float[Tensor, "k c"],
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k r"]]:
    """log (M^T u) and log (M v), for log u over the rows and log v over the columns."""
    return choose(left).power_step(left, right, bias, rows, columns)


# The slow twins: from the whole array of scores.


def row_logsumexp_reference(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, "k r"]:
    """What `row_logsumexp` computes."""
    left, right = _spread(left, right, bias, scale)
    scores = left @ right.mT + bias.unsqueeze(1)
    empty = (bias == -torch.inf).all(1, keepdim=True)
    # Twice `where`: the gradient of the branch that is not taken must be finite too.
    value = torch.where(empty.unsqueeze(2), 0.0, scores).logsumexp(2)
    return torch.where(empty, -torch.inf, value)


def star_logsumexp_reference(
    left: Float[Tensor, "#k r d"],
    right: Float[Tensor, "#k c d"],
    bias: Float[Tensor, "k c"],
    centre: Float[Tensor, " r"],
    scale: float | Float[Tensor, " k"] = 1.0,
) -> Float[Tensor, ""]:
    """What `star_logsumexp` computes."""
    return (centre + row_logsumexp_reference(left, right, bias, scale).sum(0)).logsumexp(0)


def power_step_reference(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    rows: Float[Tensor, "k r"],
    columns: Float[Tensor, "k c"],
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k r"]]:
    """What `power_step` computes."""
    scores = left @ right.mT + bias.unsqueeze(1)
    return (scores + rows.unsqueeze(2)).logsumexp(1), (scores + columns.unsqueeze(1)).logsumexp(2)


# Which kernels do the work, by the device and type of the tensors.


class LowRankKernels(NamedTuple):
    """Passes over low-rank scores.

    `forward` and `backward` are those of the row log-sum-exp; `star` is the value of the stars with
    its gradients by left vectors, right vectors, bias and centre.
    """

    forward: Callable[..., tuple[Tensor, Tensor, tuple[Tensor, ...]]]
    backward: Callable[..., tuple[Tensor, Tensor]]
    star: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]
    power_step: Callable[..., tuple[Tensor, Tensor]]


def choose(left: Float[Tensor, "k r d"]) -> LowRankKernels:
    """The kernels for scores of vectors like these: Triton for float32 on CUDA, or else tiles.

    On a CPU stars and power steps take a single pass; a GPU, where products cost little, two.
    """
    if left.is_cpu:
        own = low_rank_cpu
        return LowRankKernels(own.forward, own.backward, own.star, own.power_step)
    passes: ModuleType = low_rank_cpu
    fits = left.dtype == torch.float32 and left.shape[-1] <= WIDEST_FOR_TRITON
    if left.is_cuda and fits and _has_triton():
        from mrflearn.kernels import low_rank_triton as passes
    return in_two_passes(passes)


def in_two_passes(passes: ModuleType) -> LowRankKernels:
    """Stars and power steps from the passes of the row log-sum-exp alone."""
    forward, backward = passes.forward, passes.backward
    return LowRankKernels(
        forward, backward, partial(_star, forward, backward), partial(_power_step, forward)
    )


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _star(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    left: Tensor,
    right: Tensor,
    bias: Tensor,
    centre: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    messages, mean, saved = forward(left, right, bias, means=True)
    log_weight = centre + messages.sum(0)
    # Bounded below, so that a star without any finite score has finite weights.
    normalised = log_weight.clamp_min(torch.finfo(left.dtype).min / 2).log_softmax(0)
    value = log_weight.amax() - normalised.amax()
    weight = normalised.exp()
    by_right, by_bias = backward(messages, weight.expand_as(messages), saved)
    return value, weight.unsqueeze(-1) * mean, by_right, by_bias, weight


def _power_step(
    forward: Callable[..., Any],
    left: Tensor,
    right: Tensor,
    bias: Tensor,
    rows: Tensor,
    columns: Tensor,
) -> tuple[Tensor, Tensor]:
    along_columns, *_ = forward(right, left, rows, means=False)
    along_rows, *_ = forward(left, right, bias + columns, means=False)
    return bias + along_columns, along_rows


# Gradients.


class _RowLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor, means: bool) -> Tensor:
        kernels = choose(left)
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


class _StarLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor, centre: Tensor) -> Tensor:
        shape = len(bias), -1, -1
        wide = left.detach().expand(shape), right.detach().expand(shape)
        value, *gradients = choose(left).star(*wide, bias.detach(), centre.detach())
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


def _spread(
    left: Tensor, right: Tensor, bias: Tensor, scale: float | Tensor
) -> tuple[Tensor, Tensor]:
    offsets = len(bias)
    return (left * _factor(scale)).expand(offsets, -1, -1), right.expand(offsets, -1, -1)


def _factor(scale: float | Tensor) -> float | Tensor:
    return scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale
