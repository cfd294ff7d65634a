"""The rules of a grammar sorted by which of their parts are single words, and by shared pairs.

A part of one word is a preterminal and a longer one a phrase, so that a rule is of use only where
its parts have the right lengths: there are four blocks of rules.  Several rules ask for the same
pair of symbols; their products are formed and summed once for the pair.
Letters in shapes: r: rules of a block; q: pairs; m: spans of one width; k: splits; b: sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.rule_sums import RuleSums


@dataclass(frozen=True, eq=False)
class Pairs:
    """The different pairs in two columns of rules, and the pair of each rule."""

    first: Int[Tensor, "q"]
    second: Int[Tensor, "q"]
    of_rule: Int[Tensor, "r"]
    sizes: tuple[int, int]  # how many symbols there are of each sort

    @classmethod
    def of(cls, first: Int[Tensor, "r"], second: Int[Tensor, "r"], sizes: tuple[int, int]) -> Pairs:
        """The pairs of two columns."""
        both, of_rule = torch.unique(torch.stack([first, second]), dim=1, return_inverse=True)
        return cls(both[0], both[1], of_rule, sizes)

    @cached_property
    def to_first(self) -> RuleSums:
        """From pairs to the sums over those with the same first symbol."""
        return RuleSums.of(
            self.first, torch.arange(len(self), device=self.first.device), self.sizes[0], len(self)
        )

    @cached_property
    def to_second(self) -> RuleSums:
        """From pairs to the sums over those with the same second symbol."""
        return RuleSums.of(
            self.second, torch.arange(len(self), device=self.first.device), self.sizes[1], len(self)
        )

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

    def products(
        self,
        first: Float[Tensor, "x m k b"],
        second: Float[Tensor, "y m k b"],
        factor: Float[Tensor, "m k b"],
    ) -> Float[Tensor, "q m b"]:
        """factor * first * second of each pair, summed over splits."""
        scaled = first.index_select(0, self.first).mul_(factor)
        return scaled.mul_(second.index_select(0, self.second)).sum(dim=2)

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Block:
    """Rules whose parts are of two certain sorts; preterminals are counted from 0 here."""

    rule: Int[Tensor, "r"]  # where each stands among all rules
    parent: Int[Tensor, "r"]
    left: Int[Tensor, "r"]
    right: Int[Tensor, "r"]
    sizes: tuple[int, int, int]  # how many symbols can be parent, left and right part

    @cached_property
    def parts(self) -> Pairs:
        """Left and right."""
        return Pairs.of(self.left, self.right, self.sizes[1:])

    @cached_property
    def above_right(self) -> Pairs:
        """Parent and right."""
        return Pairs.of(self.parent, self.right, (self.sizes[0], self.sizes[2]))

    @cached_property
    def above_left(self) -> Pairs:
        """Parent and left."""
        return Pairs.of(self.parent, self.left, self.sizes[:2])

    @cached_property
    def to_parent(self) -> RuleSums:
        """From pairs of parts to their parents."""
        return RuleSums.of(self.parent, self.parts.of_rule, self.sizes[0], len(self.parts))

    @cached_property
    def to_left(self) -> RuleSums:
        """From pairs of parent and right part to the left part."""
        pairs = self.above_right
        return RuleSums.of(self.left, pairs.of_rule, self.sizes[1], len(pairs))

    @cached_property
    def to_right(self) -> RuleSums:
        """From pairs of parent and left part to the right part."""
        pairs = self.above_left
        return RuleSums.of(self.right, pairs.of_rule, self.sizes[2], len(pairs))

    @cached_property
    def beside_left(self) -> RuleSums:
        """From left parts to the pairs of parent and right part that they stand with."""
        pairs = self.above_right
        return RuleSums.of(pairs.of_rule, self.left, len(pairs), self.sizes[1])

    @cached_property
    def beside_right(self) -> RuleSums:
        """From right parts to the pairs of parent and left part that they stand with."""
        pairs = self.above_left
        return RuleSums.of(pairs.of_rule, self.right, len(pairs), self.sizes[2])


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
        preterminals: int,
    ) -> RuleBlocks:
        """The blocks of a grammar's rules, whose first `phrases` symbols are phrases."""
        word_left, word_right = left >= phrases, right >= phrases
        a, p = phrases, preterminals
        kinds = (
            (~word_left & ~word_right, (a, a, a)),
            (word_left & ~word_right, (a, p, a)),
            (~word_left & word_right, (a, a, p)),
            (word_left & word_right, (a, p, p)),
        )
        left, right = left - phrases * word_left, right - phrases * word_right
        blocks = []
        for kind, sizes in kinds:
            rule = kind.nonzero()[:, 0]
            blocks.append(Block(rule, parent[rule], left[rule], right[rule], sizes))
        return cls(*blocks)
