"""Rules of a grammar as arrays: their shape, blocks, weights and expected counts.

A product of a compressed matrix and a dense one reads each row of numbers where it lies; picking
rows, weighing them and adding them up one by one is thirty times slower for many sentences.
Letters in shapes: r: rules; y: targets; c: columns of numbers.

A part of one word is a preterminal and a longer one a phrase, so that a rule is of use only where
its parts have the right lengths: there are four blocks of rules.  Several rules ask for the same
pair of symbols; their products are formed and summed once for the pair.
Letters in shapes: r: rules of a block; q: pairs; m: spans of one width; k: splits; b: sentences.

Symbols come in two sorts, numbered in one row: phrases first, each rewritten as two symbols, then
preterminals, each rewritten as one word [Wang 2005, eq. 2].

Each matrix is made when it is first asked for, once for all sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.kernels.sparse_product import compressed

# Sums over the rules of a symbol as a sparse matrix: structure once, weights as they come.


@dataclass(frozen=True, eq=False)
class RuleSums:
    """Which sources each target sums, by compressed rows; `order` is how rules come to lie so."""

    first: Int[Tensor, " y+1"]
    source: Int[Tensor, " r"]
    order: Int[Tensor, " r"]
    sources: int

    @classmethod
    def of(
        cls, target: Int[Tensor, " r"], source: Int[Tensor, " r"], targets: int, sources: int
    ) -> RuleSums:
        """Rule r adds its weight times `source[r]` to `target[r]`."""
        order = torch.argsort(target, stable=True)
        bounds = torch.arange(targets + 1, device=target.device)
        first = torch.searchsorted(target[order], bounds)
        # The libraries below want 32 bits, and would convert longer ones with every product.
        return cls(first.int(), source.to(target.device)[order].int(), order, sources)

    def weighed(self, weight: Float[Tensor, " r"]) -> Tensor:
        """The matrix for weights of the rules."""
        size = (len(self.first) - 1, self.sources)
        return compressed(self.first, self.source, weight[self.order], size)

    def plain(self, like: Tensor) -> Tensor:
        """The matrix of ones, of the type of a tensor."""
        return self.weighed(like.new_ones(len(self.order)))


def add_sums(
    total: Float[Tensor, "y m b"], matrix: Tensor, values: Float[Tensor, "q m b"]
) -> Float[Tensor, "y m b"]:
    """The total and, for each target, the weighed sum of its values."""
    if not matrix.shape[1] or not values[0].numel():
        return total
    added: Tensor = matrix @ values.flatten(1)
    return total.add_(added.view_as(total))


# The rules of a grammar sorted by which of their parts are single words, and by shared pairs.


@dataclass(frozen=True, eq=False)
class Pairs:
    """The different pairs in two columns of rules, and the pair of each rule."""

    first: Int[Tensor, " q"]
    second: Int[Tensor, " q"]
    of_rule: Int[Tensor, " r"]
    sizes: tuple[int, int]  # how many symbols there are of each sort

    @classmethod
    def of(
        cls, first: Int[Tensor, " r"], second: Int[Tensor, " r"], sizes: tuple[int, int]
    ) -> Pairs:
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
class RuleBlock:
    """Rules whose parts are of two certain sorts; preterminals are counted from 0 here."""

    rule: Int[Tensor, " r"]  # where each stands among all rules
    parent: Int[Tensor, " r"]
    left: Int[Tensor, " r"]
    right: Int[Tensor, " r"]
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

    phrases: RuleBlock
    word_left: RuleBlock
    word_right: RuleBlock
    words: RuleBlock

    @classmethod
    def of(
        cls,
        parent: Int[Tensor, " r"],
        left: Int[Tensor, " r"],
        right: Int[Tensor, " r"],
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
            blocks.append(RuleBlock(rule, parent[rule], left[rule], right[rule], sizes))
        return cls(*blocks)


# Which binary rules a grammar has: the wiring of a chart, without any probabilities.


@dataclass(frozen=True, eq=False)
class RuleShape:
    """Rules `parent -> left right`; whatever belongs to a rule is a vector in this order."""

    phrases: int
    preterminals: int
    parent: Int[Tensor, " r"]
    left: Int[Tensor, " r"]
    right: Int[Tensor, " r"]
    dense: bool = False  # every phrase has every pair of symbols, in row-major order

    def __post_init__(self) -> None:
        if self.preterminals < 1 or self.phrases < 0:
            raise GraphError(
                f"{self.phrases} phrases and {self.preterminals} preterminals: a grammar needs at "
                "least one preterminal, or it has no words."
            )
        limits = {"parent": self.phrases, "left": self.symbols, "right": self.symbols}
        for name, limit in limits.items():
            column: Tensor = getattr(self, name)
            wrong = column[(column < 0) | (column >= limit)]
            if len(wrong):
                raise GraphError(
                    f"a rule's {name} is symbol {int(wrong[0])}, but only 0 to {limit - 1} can "
                    "stand there; phrases are numbered before preterminals."
                )

    @classmethod
    def full(cls, phrases: int, preterminals: int) -> RuleShape:
        """All rules there can be; a vector of them is a (phrases, symbols, symbols) table."""
        symbols = phrases + preterminals
        each = torch.arange(phrases * symbols * symbols)
        pair = each % (symbols * symbols)
        parent = each // (symbols * symbols)
        return cls(phrases, preterminals, parent, pair // symbols, pair % symbols, dense=True)

    @property
    def symbols(self) -> int:
        """The number of phrases and preterminals together."""
        return self.phrases + self.preterminals

    @cached_property
    def blocks(self) -> RuleBlocks:
        """The rules by the sorts of their parts."""
        return RuleBlocks.of(self.parent, self.left, self.right, self.phrases, self.preterminals)

    def to(self, device: torch.device) -> RuleShape:
        """The same rules on a device."""
        if self.parent.device == device:
            return self
        parent, left, right = (x.to(device) for x in (self.parent, self.left, self.right))
        return RuleShape(self.phrases, self.preterminals, parent, left, right, self.dense)

    def __len__(self) -> int:
        return len(self.parent)


# The rules of a listed grammar with their weights, as the matrices that charts multiply by.


@dataclass(frozen=True, eq=False)
class WeighedBlock:
    """Rules whose parts are of two certain sorts, and their weights."""

    block: RuleBlock
    weight: Float[Tensor, " r"]

    @cached_property
    def to_parent(self) -> Tensor:
        """From pairs of parts to parents."""
        return self.block.to_parent.weighed(self.weight)

    @cached_property
    def to_left(self) -> Tensor:
        """From pairs of parent and right part to left parts."""
        return self.block.to_left.weighed(self.weight)

    @cached_property
    def to_right(self) -> Tensor:
        """From pairs of parent and left part to right parts."""
        return self.block.to_right.weighed(self.weight)

    @cached_property
    def beside_left(self) -> Tensor:
        """From left parts to pairs of parent and right part."""
        return self.block.beside_left.weighed(self.weight)

    @cached_property
    def beside_right(self) -> Tensor:
        """From right parts to pairs of parent and left part."""
        return self.block.beside_right.weighed(self.weight)

    @cached_property
    def right_ends(self) -> tuple[Tensor, Tensor]:
        """From pairs of parent and right part to the one, and to the other."""
        pairs = self.block.above_right
        return pairs.to_first.plain(self.weight), pairs.to_second.plain(self.weight)

    @cached_property
    def left_ends(self) -> tuple[Tensor, Tensor]:
        """From pairs of parent and left part to the one, and to the other."""
        pairs = self.block.above_left
        return pairs.to_first.plain(self.weight), pairs.to_second.plain(self.weight)


@dataclass(frozen=True, eq=False)
class ListedRules:
    """All rules of a grammar in four blocks, by whether a part is a phrase or a word."""

    rules: int
    symbols: int  # phrases
    phrases: WeighedBlock
    word_left: WeighedBlock
    word_right: WeighedBlock
    words: WeighedBlock

    @classmethod
    def of(cls, blocks: RuleBlocks, weight: Float[Tensor, " r"], phrases: int) -> ListedRules:
        """The rules with a weight for each."""
        named = {n: WeighedBlock(b, weight[b.rule]) for n, b in vars(blocks).items()}
        return cls(len(weight), phrases, **named)
