"""The rules of a listed grammar with their weights, as the matrices that charts multiply by.

Each matrix is made when it is first asked for, once for all sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_blocks import Block, RuleBlocks


@dataclass(frozen=True, eq=False)
class WeighedBlock:
    """Rules whose parts are of two certain sorts, and their weights."""

    block: Block
    weight: Float[Tensor, "r"]

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
    def of(cls, blocks: RuleBlocks, weight: Float[Tensor, "r"], phrases: int) -> ListedRules:
        """The rules with a weight for each."""
        named = {n: WeighedBlock(b, weight[b.rule]) for n, b in vars(blocks).items()}
        return cls(len(weight), phrases, **named)
