"""Scores of a grammar and of the words of sentences, and batches of them for charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.errors import GraphError
from mrflearn.kernels.rules import RuleShape

# Elements of charts that are so small that lengths are mixed.
PADDED, PADDED_ON_GPU = 2**19, 2**24


class ChartBatch(NamedTuple):
    """Sentences of about one length, which they are and how long.

    `tokens` is where their tokens stand, -1 after the last one of a shorter sentence.
    """

    sentences: Int[Tensor, " b"]
    lengths: Int[Tensor, " b"]
    tokens: Int[Tensor, "b n"]


@dataclass(frozen=True, eq=False)
class ChartPotentials:
    """Scores in nats, log-zero is -inf: of each preterminal at each token, of rules and roots.

    Letters in shapes: b: sentences; t: tokens, sentences end to end; p: preterminals; s: symbols
    (phrases, then preterminals); a: phrases; n: words of the longest; r: rules.

    `nodes` are scores of phrases over spans of two words or more, by first word and width, which
    count beside those of their rules; None: there are none.
    """

    shape: RuleShape
    words: Float[Tensor, "t p"]
    lengths: Int[Tensor, " b"]
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    nodes: Float[Tensor, "b n+1 n+1 a"] | None = None

    def __post_init__(self) -> None:
        if len(self.lengths) and int(self.lengths.min()) < 0:
            raise GraphError(f"a sentence cannot have {int(self.lengths.min())} words.")
        tokens, shape = int(self.lengths.sum()), self.shape
        wide = int(self.lengths.max()) + 1 if len(self.lengths) else 1
        nodes = len(self.lengths), wide, wide, shape.phrases
        for name, found, wanted in (
            ("scores of words", tuple(self.words.shape), (tokens, shape.preterminals)),
            ("scores of rules", tuple(self.rules.shape), (len(shape),)),
            ("scores of start symbols", tuple(self.start.shape), (shape.symbols,)),
            ("scores of nodes", nodes if self.nodes is None else tuple(self.nodes.shape), nodes),
        ):
            if found != wanted:
                raise GraphError(f"{name} have shape {found}, but {wanted} is needed here.")

    @property
    def padded_words(self) -> Float[Tensor, "t+1 p"]:
        """The scores of words with a last row for what stands after a sentence: nothing can."""
        return pad(self.words, (0, 0, 0, 1), value=-torch.inf)

    def nodes_of(self, batch: ChartBatch) -> Float[Tensor, "b n+1 n+1 a"] | None:
        """The scores of nodes of the sentences of a batch."""
        n = batch.tokens.shape[1] + 1
        return None if self.nodes is None else self.nodes[batch.sentences, :n, :n]

    def batches(self, elements: int) -> list[ChartBatch]:
        """Sentences that may have parses, in batches whose charts hold about so many elements."""
        device, padded = self.words.device, PADDED_ON_GPU if self.words.is_cuda else PADDED
        planned = chart_batches(self.lengths.cpu(), elements, padded, self.shape)
        return [ChartBatch(*(own.to(device) for own in batch)) for batch in planned]


def chart_batches(
    lengths: Int[Tensor, " b"], elements: int, padded: int, shape: RuleShape
) -> list[ChartBatch]:
    """All sentences with words, shortest first; those of one word come alone.

    Without phrases there are no others, since nothing stands over two words.
    The charts of a batch hold about so many elements, or more only if one sentence's do.  Lengths
    are mixed only where all charts together hold `padded` elements at most, since it takes longer
    to begin with so small a chart than to fill some cells in vain.
    """
    first = lengths.cumsum(0) - lengths
    groups: list[Tensor] = []
    before = 0  # the length of the last group, if it can be longer
    for length in lengths[lengths <= (1 if not shape.phrases else torch.inf)].unique().tolist():
        cost = max(1, chart_elements(length, shape))
        own = (lengths == length).nonzero()[:, 0]
        if before > 1 and (len(groups[-1]) + len(own)) * cost <= min(padded, elements):
            groups[-1] = torch.cat([groups[-1], own])
        elif length:
            groups += own.split(max(1, elements // cost))
        before = length
    batches = []
    for own in groups:
        size = lengths[own]
        places = torch.arange(int(size.max()), device=lengths.device)
        tokens = torch.where(places < size[:, None], first[own, None] + places, -1)
        batches.append(ChartBatch(own, size, tokens))
    return batches


def chart_elements(length: int, shape: RuleShape) -> int:
    """About how many elements the inside and outside of one sentence take, with what they need."""
    phrases = shape.phrases
    if shape.dense:
        # Two tables, each kept twice; products of two phrases; rules beside each word.
        table = 4 * (length + 1) ** 2 * phrases
        return table + 2 * length * phrases**2 + 2 * length * phrases * shape.symbols
    pairs = max(len(rule) for rule, _ in shape.blocks)
    return length**2 * phrases + 4 * length * pairs
