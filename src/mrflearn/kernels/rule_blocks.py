"""The rules of a grammar sorted by which of their parts are single words, and by shared pairs.

A part of one word is a preterminal and a longer one a phrase, so that a rule is of use only where
its parts have the right lengths: there are four blocks of rules.  Several rules ask for the same
pair of symbols; their products are formed and summed once for the pair.
Letters in shapes: r: rules of a block; q: pairs; m: spans of one width; b: sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Pairs:
    """The different pairs in two columns of rules, and the pair of each rule."""

    first: Int[Tensor, "q"]
    second: Int[Tensor, "q"]
    of_rule: Int[Tensor, "r"]

    @classmethod
    def of(cls, first: Int[Tensor, "r"], second: Int[Tensor, "r"]) -> Pairs:
        """The pairs of two columns."""
        both, of_rule = torch.unique(torch.stack([first, second]), dim=1, return_inverse=True)
        return cls(both[0], both[1], of_rule)

    def add_products(
        self,
        total: Float[Tensor, "q m b"],
        first: Float[Tensor, "x m b"],
        second: Float[Tensor, "y m b"],
        factor: Float[Tensor, "m b"],
    ) -> None:
        """Adds factor * first * second of each pair."""
        scaled = first.index_select(0, self.first).mul_(factor)
        total.addcmul_(scaled, second.index_select(0, self.second))

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Block:
    """Rules whose parts are of two certain sorts; preterminals are counted from 0 here."""

    rule: Int[Tensor, "r"]  # where each stands among all rules
    parent: Int[Tensor, "r"]
    left: Int[Tensor, "r"]
    right: Int[Tensor, "r"]
    parts: Pairs  # left and right
    above_right: Pairs  # parent and right
    above_left: Pairs  # parent and left

    @classmethod
    def of(cls, rule: Tensor, parent: Tensor, left: Tensor, right: Tensor) -> Block:
        """The block of these rules."""
        pairs = Pairs.of(left, right), Pairs.of(parent, right), Pairs.of(parent, left)
        return cls(rule, parent, left, right, *pairs)


@dataclass(frozen=True, eq=False)
class RuleBlocks:
    """All rules of a grammar in four blocks."""

    phrases: Block
    word_left: Block
    word_right: Block
    words: Block

    @classmethod
    def of(
        cls,
        parent: Int[Tensor, "r"],
        left: Int[Tensor, "r"],
        right: Int[Tensor, "r"],
        phrases: int,
    ) -> RuleBlocks:
        """The blocks of a grammar's rules, whose first `phrases` symbols are phrases."""
        word_left, word_right = left >= phrases, right >= phrases
        kinds = (
            ~word_left & ~word_right,
            word_left & ~word_right,
            ~word_left & word_right,
            word_left & word_right,
        )
        left, right = left - phrases * word_left, right - phrases * word_right
        chosen = [kind.nonzero()[:, 0] for kind in kinds]
        return cls(*(Block.of(rule, parent[rule], left[rule], right[rule]) for rule in chosen))


def weighted_sum(
    values: Float[Tensor, "q m b"],
    pair: Int[Tensor, "r"],
    weight: Float[Tensor, "r"],
    target: Int[Tensor, "r"],
    size: int,
) -> Float[Tensor, "x m b"]:
    """For each target symbol, the sum over its rules of weight times the value of the pair."""
    total = values.new_zeros(size, *values.shape[1:])
    return total.index_add_(0, target, values.index_select(0, pair) * weight[:, None, None])
