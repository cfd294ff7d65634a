"""Sentences of any lengths laid out for charts: batches of one length, as large as memory allows.

Charts are filled span by span for all sentences of a batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.kernels.rules import RuleShape


@dataclass(frozen=True, eq=False)
class ChartBatch:
    """Sentences of one length: which they are, and where their tokens stand."""

    sentences: Int[Tensor, " b"]
    tokens: Int[Tensor, "b n"]

    @property
    def length(self) -> int:
        """The number of tokens of each sentence, at least 1."""
        return self.tokens.shape[1]


def chart_batches(lengths: Int[Tensor, " b"], numbers: int, shape: RuleShape) -> list[ChartBatch]:
    """All sentences with words, by length, shortest first.

    The charts of a batch hold about `numbers` numbers, or more only if one sentence's do.
    """
    if len(lengths) and int(lengths.min()) < 0:
        raise GraphError(f"a sentence cannot have {int(lengths.min())} words.")
    first = lengths.cumsum(0) - lengths
    batches = []
    for length in lengths.unique().tolist():
        portion = max(1, numbers // max(1, numbers_of(length, shape)))
        places = torch.arange(length, device=lengths.device)
        portions = (lengths == length).nonzero()[:, 0].split(portion)
        batches += [ChartBatch(each, first[each, None] + places) for each in portions]
    return [batch for batch in batches if batch.length]


def numbers_of(length: int, shape: RuleShape) -> int:
    """About how many numbers the inside and outside of one sentence take, with what they need."""
    phrases = shape.phrases
    if shape.dense:
        # Two tables, each kept twice; products of two phrases; rules beside each word.
        table = 4 * (length + 1) ** 2 * phrases
        return table + 2 * length * phrases**2 + 2 * length * phrases * shape.symbols
    pairs = max(len(block.rule) for block in vars(shape.blocks).values())
    return length**2 * phrases + 4 * length * pairs
