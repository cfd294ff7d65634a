"""Words summed out between tags: log sum_w exp( a(w, i) + b(w, j) + c(w, k) ), with gradients.

One matrix product for each block of words; `word_sums_reference` is the plain twin.
Letters in shapes: w: words; i, j, k: tags before, at and after a word (or 1 of each: not there).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

LARGEST_BLOCK = 2**20  # products of two weights held at once: a block should stay in the cache


def sum_out_words(
    before: Float[Tensor, "w i"], at: Float[Tensor, "w j"], after: Float[Tensor, "w k"]
) -> Float[Tensor, "i j k"]:
    """The log-sum over all words; -inf where no word is possible, with gradients of 0 there."""
    table: Tensor = _WordSum.apply(before, at, after)  # type: ignore[no-untyped-call]
    return table


class _WordSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, before: Tensor, at: Tensor, after: Tensor) -> Tensor:
        tops = [_finite_top(scores) for scores in (before, at, after)]
        each = [(s - top).exp_() for s, top in zip((before, at, after), tops, strict=True)]
        top = sum(tops[1:], tops[0])
        highest = top.amax()
        each[2] *= (top - highest).exp_()
        total = at.new_zeros(before.shape[1] * at.shape[1], after.shape[1])
        for rows in _blocks(before, at):
            total.addmm_(_products(each[0][rows], each[1][rows]).t(), each[2][rows])
        ctx.save_for_backward(*each, total)
        return (total.log() + highest).view(before.shape[1], at.shape[1], after.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before, at, after, total = ctx.saved_tensors
        share = weight.reshape(total.shape) / total
        share = torch.where(total > 0, share, 0.0)
        slopes = [torch.empty_like(scores) for scores in (before, at, after)]
        for rows in _blocks(before, at):
            first, second, third = before[rows], at[rows], after[rows]
            slopes[2][rows] = (_products(first, second) @ share) * third
            met = (third @ share.t()).view(len(first), first.shape[1], second.shape[1])
            slopes[0][rows] = torch.bmm(met, second.unsqueeze(2)).squeeze(2) * first
            slopes[1][rows] = torch.bmm(first.unsqueeze(1), met).squeeze(1) * second
        return slopes[0], slopes[1], slopes[2]


def _finite_top(scores: Float[Tensor, "w t"]) -> Float[Tensor, "w 1"]:
    """Each word's highest score; 0 for a word that is impossible."""
    top = scores.amax(dim=1, keepdim=True)
    return torch.where(top == -torch.inf, 0.0, top)


def _blocks(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Iterator[slice]:
    size = max(1, LARGEST_BLOCK // (before.shape[1] * at.shape[1]))
    for first in range(0, len(before), size):
        yield slice(first, first + size)


def _products(before: Float[Tensor, "w i"], at: Float[Tensor, "w j"]) -> Float[Tensor, "w ij"]:
    return (before.unsqueeze(2) * at.unsqueeze(1)).flatten(1)
