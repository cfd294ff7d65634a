"""Scores of a grammar and of the words of sentences, and batches of them for charts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.kernels.rules import RuleShape


@dataclass(frozen=True, eq=False)
class ChartPotentials:
    """Scores in nats, log-zero is -inf: of each preterminal at each token, of rules and roots.

    Letters in shapes: b: sentences; t: tokens, sentences end to end; p: preterminals; s: symbols
    (phrases, then preterminals); r: rules.
    """

    shape: RuleShape
    words: Float[Tensor, "t p"]
    lengths: Int[Tensor, " b"]
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]

    def __post_init__(self) -> None:
        if len(self.lengths) and int(self.lengths.min()) < 0:
            raise GraphError(f"a sentence cannot have {int(self.lengths.min())} words.")
        tokens, shape = int(self.lengths.sum()), self.shape
        for name, found, wanted in (
            ("scores of words", tuple(self.words.shape), (tokens, shape.preterminals)),
            ("scores of rules", tuple(self.rules.shape), (len(shape),)),
            ("scores of start symbols", tuple(self.start.shape), (shape.symbols,)),
        ):
            if found != wanted:
                raise GraphError(f"{name} have shape {found}, but {wanted} is needed here.")


@dataclass(frozen=True, eq=False)
class ChartBatch:
    """Sentences of one length: which they are, and where their tokens stand."""

    sentences: Int[Tensor, " b"]
    tokens: Int[Tensor, "b n"]

    @property
    def length(self) -> int:
        """The number of tokens of each sentence, at least 1."""
        return self.tokens.shape[1]


def chart_batches(lengths: Int[Tensor, " b"], elements: int, shape: RuleShape) -> list[ChartBatch]:
    """All sentences with words, by length, shortest first.

    The charts of a batch hold about so many elements, or more only if one sentence's do.
    """
    first = lengths.cumsum(0) - lengths
    batches = []
    for length in lengths.unique().tolist():
        portion = max(1, elements // max(1, chart_elements(length, shape)))
        places = torch.arange(length, device=lengths.device)
        portions = (lengths == length).nonzero()[:, 0].split(portion)
        batches += [ChartBatch(each, first[each, None] + places) for each in portions]
    return [batch for batch in batches if batch.length]


def chart_elements(length: int, shape: RuleShape) -> int:
    """About how many elements the inside and outside of one sentence take, with what they need."""
    phrases = shape.phrases
    if shape.dense:
        # Two tables, each kept twice; products of two phrases; rules beside each word.
        table = 4 * (length + 1) ** 2 * phrases
        return table + 2 * length * phrases**2 + 2 * length * phrases * shape.symbols
    pairs = max(len(block.rule) for block in shape.blocks)
    return length**2 * phrases + 4 * length * pairs
