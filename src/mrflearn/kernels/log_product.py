"""Products of matrices given by their logarithms, with gradients, as ordinary products.

    log_product:    value[x, y]    = log sum_z exp( a[x, z] + b[y, z] )
    sum_out_words:  value[i, j, k] = log sum_w exp( before[w, i] + at[w, j] + after[w, k] )

Letters in shapes: w: words; i, j, k: tags before, at and after a word (or 1 of each: not there).
"""

from __future__ import annotations

from collections.abc import Iterator
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b, top_a, top_b, sums = ctx.saved_tensors
        share = gradient / sums
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


def shifted_exp(scores: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """exp(scores - top) with the highest score along an axis as top, or 0 if all are -inf."""
    top = scores.amax(dim, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0.0)
    return (scores - top).exp(), top.squeeze(dim)


def _positive(sums: Tensor) -> Tensor:
    # Terms below the type's range count as its least number: a vector stays positive.
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


# Words summed out between tags: one product for each block of words.


LARGEST_BLOCK = 2**18  # products of two weights held at once: a block should stay in the cache


def sum_out_words(
    before: Float[Tensor, "w i"], at: Float[Tensor, "w j"], after: Float[Tensor, "w k"]
) -> Float[Tensor, "i j k"]:
    """The log-sum over all words; -inf where no word is possible, with gradients of 0 there."""
    if after.shape[1] == 1 < at.shape[1]:  # a product of matrices needs the two that meet last
        return sum_out_words(after, before, at).permute(1, 2, 0)
    table: Tensor = _SumOutWords.apply(before, at, after)  # type: ignore[no-untyped-call]
    return table


class _SumOutWords(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, before: Tensor, at: Tensor, after: Tensor) -> Tensor:
        each, shift = _word_weights(before, at, after)
        total = at.new_zeros(before.shape[1] * at.shape[1], after.shape[1])
        for rows in _blocks(before, at):
            met = _products(each[0][rows], each[1][rows])
            total.addmm_(met.flatten(1).t(), each[2][rows])
        ctx.save_for_backward(*each, total)
        return (total.log() + shift).view(before.shape[1], at.shape[1], after.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before, at, after, total = ctx.saved_tensors
        share = torch.where(total > 0, weight.reshape(total.shape) / total, 0.0)
        gradients = [torch.empty_like(scores) for scores in (before, at, after)]
        for rows in _blocks(before, at):
            met = _products(before[rows], at[rows])
            gradients[2][rows] = (met.flatten(1) @ share).mul_(after[rows])
            met *= (after[rows] @ share.t()).view_as(met)
            gradients[0][rows], gradients[1][rows] = met.sum(2), met.sum(1)
        return gradients[0], gradients[1], gradients[2]


def _word_weights(*scores: Float[Tensor, "w _"]) -> tuple[list[Tensor], Tensor]:
    """The exponentials of the scores, the last one shifted, and by how much in all."""
    tops = [own.amax(dim=1, keepdim=True) for own in scores]
    each = [_weights(own, top) for own, top in zip(scores, tops, strict=True)]
    shift = torch.cat(tops, dim=1)
    top = shift.masked_fill(shift == -torch.inf, 0.0).sum(dim=1, keepdim=True)
    highest = top.amax()
    each[-1] *= (top - highest).exp_()
    return each, highest


def _blocks(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Iterator[slice]:
    size = max(1, LARGEST_BLOCK // (before.shape[1] * at.shape[1]))
    for first in range(0, len(before), size):
        yield slice(first, first + size)


def _products(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Float[Tensor, "w i j"]:
    return before.unsqueeze(2) * at.unsqueeze(1)
