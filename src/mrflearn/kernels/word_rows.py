"""What the rules of a listed grammar become beside each word of sentences of one length.

Letters in shapes: b: sentences of length n; m: spans of one width; p: preterminals; a: phrases; q:
pairs of parent and other part.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules
from mrflearn.kernels.span_table import factor


@dataclass(frozen=True, eq=False)
class WordRows:
    """What the rules become beside a word: a number for each parent and other part."""

    rules: ListedRules
    left: Float[Tensor, "q n b"]  # the word is the left part
    right: Float[Tensor, "q n b"]  # the word is the right part

    @classmethod
    def of(cls, rules: ListedRules, words: Float[Tensor, "p n b"]) -> WordRows:
        """The numbers of all words."""
        left, right = rules.word_left, rules.word_right
        beside_left, beside_right = (
            words.new_zeros(len(pairs), *words.shape[1:])
            for pairs in (left.block.above_right, right.block.above_left)
        )
        return cls(
            rules,
            add_sums(beside_left, left.beside_left, words),
            add_sums(beside_right, right.beside_right, words),
        )

    def add_inside(
        self,
        value: Float[Tensor, "a m b"],
        shorter: Float[Tensor, "a m+1 b"],
        scale: Float[Tensor, "m+1 b"],
        top: Float[Tensor, "m b"],
    ) -> None:
        """Add what spans are worth with a word split off; `shorter` are those of one word less."""
        left, right = self.rules.word_left, self.rules.word_right
        other = left.block.above_right.second
        after = (shorter[:, 1:] * factor(scale[1:], top, value.dtype)).index_select(0, other)
        add_sums(value, left.right_ends[0], after.mul_(self.left[:, : len(top)]))
        other = right.block.above_left.second
        before = (shorter[:, :-1] * factor(scale[:-1], top, value.dtype)).index_select(0, other)
        add_sums(value, right.left_ends[0], before.mul_(self.right[:, -len(top) :]))

    def add_outside(
        self,
        value: Float[Tensor, "a m b"],
        parent: Float[Tensor, "a m-1 b"],
        scale: Float[Tensor, "m-1 b"],
        top: Float[Tensor, "m b"],
    ) -> None:
        """Add what spans get from `parent`, those of one word more: that word, beside them."""
        left, right = self.rules.word_left, self.rules.word_right
        above = parent * factor(scale, top[1:], parent.dtype)
        found = above.index_select(0, left.block.above_right.first)
        found.mul_(self.left[:, : len(scale)])
        value[:, 1:] += add_sums(torch.zeros_like(parent), left.right_ends[1], found)
        above = parent * factor(scale, top[:-1], parent.dtype)
        found = above.index_select(0, right.block.above_left.first)
        found.mul_(self.right[:, -len(scale) :])
        value[:, :-1] += add_sums(torch.zeros_like(parent), right.left_ends[1], found)
