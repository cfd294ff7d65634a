"""Words summed out between tags: log sum_w exp( a(w, i) + b(w, j) + c(w, k) ), with gradients.

One matrix product for each block of words.
Letters in shapes: w: words; i, j, k: tags before, at and after a word (or 1 of each: not there).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

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
        each, shift = _weights(before, at, after)
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
        share = _shares(weight.reshape(total.shape), total)
        slopes = [torch.empty_like(scores) for scores in (before, at, after)]
        for rows in _blocks(before, at):
            met = _products(before[rows], at[rows])
            slopes[2][rows] = (met.flatten(1) @ share).mul_(after[rows])
            met *= (after[rows] @ share.t()).view_as(met)
            slopes[0][rows], slopes[1][rows] = met.sum(2), met.sum(1)
        return slopes[0], slopes[1], slopes[2]


def _weights(*scores: Float[Tensor, "w _"]) -> tuple[list[Tensor], Tensor]:
    """The exponentials of the scores, the last one shifted, and by how much in all."""
    tops = [_highest(own) for own in scores]
    each = [(own - top).exp_() for own, top in zip(scores, tops, strict=True)]
    top = sum(tops[1:], tops[0])
    highest = top.amax()
    each[-1] *= (top - highest).exp_()
    return each, highest


def _highest(scores: Float[Tensor, "w t"]) -> Float[Tensor, "w 1"]:
    """Each word's highest score; 0 for a word that is impossible."""
    top = scores.amax(dim=1, keepdim=True)
    return torch.where(top == -torch.inf, 0.0, top)


def _shares(weight: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, weight / total, 0.0)


def _blocks(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Iterator[slice]:
    size = max(1, LARGEST_BLOCK // (before.shape[1] * at.shape[1]))
    for first in range(0, len(before), size):
        yield slice(first, first + size)


def _products(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Float[Tensor, "w i j"]:
    return before.unsqueeze(2) * at.unsqueeze(1)
