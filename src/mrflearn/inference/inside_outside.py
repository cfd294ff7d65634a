"""Exact inference over all parses of sentences: the generalised inside-outside algorithm.

Letters in shapes: b: sentences; t: tokens, sentences laid end to end; p: preterminals;
s: symbols (phrases, then preterminals); r: rules.  Scores are in nats, log-zero is -inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.chart import chart_batches
from mrflearn.kernels.inside import expected_counts
from mrflearn.kernels.rule_shape import RuleShape


@dataclass(frozen=True, eq=False)
class ParseBeliefs:
    """Log-likelihoods, and how often everything is used on average given the sentences.

    A sentence that the grammar cannot produce has log-likelihood -inf and counts of zero.
    """

    log_likelihood: Float[Tensor, "b"]
    words: Float[Tensor, "t p"]  # each preterminal at each token
    rules: Float[Tensor, "r"]  # summed over sentences, as are the start symbols
    start: Float[Tensor, "s"]

    @property
    def impossible(self) -> Int[Tensor, "i"]:
        """The sentences without any parse."""
        return (self.log_likelihood == -torch.inf).nonzero()[:, 0]


@final
@dataclass(frozen=True, eq=False)
class InsideOutside:
    """Sums over parses with the rules of a grammar, whatever their scores and those of words."""

    shape: RuleShape
    numbers: int = 2**24  # how many numbers a chart may hold, or one sentence's if that is more

    @torch.no_grad()
    def __call__(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
    ) -> ParseBeliefs:
        """Beliefs about sentences of any lengths under these scores."""
        value = words.new_full((len(lengths),), -torch.inf)
        counts = torch.zeros_like(words), torch.zeros_like(rules), torch.zeros_like(start)
        for batch in chart_batches(lengths, self.numbers, self.shape.symbols):
            found = expected_counts(words[batch.tokens], rules, start, self.shape)
            value[batch.sentences] = found[0]
            counts[0][batch.tokens] = found[1]
            counts[1].add_(found[2])
            counts[2].add_(found[3])
        return ParseBeliefs(value, *counts)
