"""Which binary rules a grammar has: the wiring of a chart, without any probabilities.

Symbols come in two sorts, numbered in one row: phrases first, each rewritten as two symbols, then
preterminals, each rewritten as one word [Wang 2005, eq. 2].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.kernels.rule_blocks import RuleBlocks


@dataclass(frozen=True, eq=False)
class RuleShape:
    """Rules `parent -> left right`; whatever belongs to a rule is a vector in this order."""

    phrases: int
    preterminals: int
    parent: Int[Tensor, "r"]
    left: Int[Tensor, "r"]
    right: Int[Tensor, "r"]
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
