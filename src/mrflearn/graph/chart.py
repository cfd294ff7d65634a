"""Sentences of any lengths laid out for charts: batches of one length, as large as memory allows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError


@dataclass(frozen=True, eq=False)
class ChartBatch:
    """Sentences of one length: which they are, and where their tokens stand."""

    sentences: Int[Tensor, "b"]
    tokens: Int[Tensor, "b n"]

    @property
    def length(self) -> int:
        """The number of tokens of each sentence, at least 1."""
        return self.tokens.shape[1]


def chart_batches(lengths: Int[Tensor, "b"], numbers: int, per_span: int) -> list[ChartBatch]:
    """All sentences with words, by length, shortest first.

    A batch holds at most `numbers` numbers at `per_span` numbers a span, but at least one sentence.
    """
    if len(lengths) and int(lengths.min()) < 0:
        raise GraphError(f"a sentence cannot have {int(lengths.min())} words.")
    first = lengths.cumsum(0) - lengths
    batches = []
    for length in lengths.unique().tolist():
        if not length:
            continue
        spans = length * (length + 1) // 2
        portion = max(1, numbers // (spans * per_span))
        for sentences in (lengths == length).nonzero()[:, 0].split(portion):
            places = torch.arange(length, device=lengths.device)
            batches.append(ChartBatch(sentences, first[sentences, None] + places))
    return batches
