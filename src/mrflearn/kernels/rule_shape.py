"""Which binary rules a grammar has: the wiring of a chart, without any probabilities.

Symbols come in two sorts, numbered in one row: phrases first, each rewritten as two symbols, then
preterminals, each rewritten as one word [Wang 2005, eq. 2].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError


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
        for name, limit in (
            ("parent", self.phrases),
            ("left", self.symbols),
            ("right", self.symbols),
        ):
            column: Tensor = getattr(self, name)
            if len(column) and not (0 <= int(column.min()) and int(column.max()) < limit):
                raise GraphError(
                    f"a rule's {name} is symbol {int(column.max())} (least {int(column.min())}), but "
                    f"only 0 to {limit - 1} can stand there; phrases come before preterminals."
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

    def __len__(self) -> int:
        return len(self.parent)
