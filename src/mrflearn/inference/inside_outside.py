"""Exact inference over all parses of sentences: the generalised inside-outside algorithm.

Letters in shapes: b: sentences; t: tokens, sentences laid end to end; p: preterminals;
s: symbols (phrases, then preterminals); r: rules.  Scores are in nats, log-zero is -inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartBatch, chart_batches
from mrflearn.kernels import inside
from mrflearn.kernels.inside_input import GrammarWeights
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
    numbers: int | None = None  # that a batch of charts may hold; one sentence is always taken

    @torch.no_grad()
    def __call__(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
        weight: Float[Tensor, "b"] | None = None,
    ) -> ParseBeliefs:
        """Beliefs about sentences of any lengths; sentence b counts `weight[b]` times, or once."""
        self._check(words, lengths, rules, start)
        grammar = GrammarWeights.of(rules, start, self.shape.to(words.device))
        weight = words.new_ones(len(lengths)) if weight is None else weight
        value = words.new_full((len(lengths),), -torch.inf)
        counts = torch.zeros_like(words), torch.zeros_like(rules), torch.zeros_like(start)
        for batch in self._batches(words, lengths):
            one = inside.expected_counts(words[batch.tokens], grammar, weight[batch.sentences])
            value[batch.sentences] = one.log_likelihood
            counts[0][batch.tokens] = one.words
            counts[1].add_(one.rules)
            counts[2].add_(one.start)
        return ParseBeliefs(value, *counts)

    def log_likelihood(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
    ) -> Float[Tensor, "b"]:
        """The log-sum over all parses of each sentence; its gradients are the expected counts."""
        self._check(words, lengths, rules, start)
        value: Tensor = _LogLikelihood.apply(self, lengths, words, rules, start)  # type: ignore[no-untyped-call]
        return value

    def _batches(self, words: Tensor, lengths: Tensor) -> list[ChartBatch]:
        # A GPU is idle most of the time with charts that just fit into a processor's caches.
        default = 2**28 if words.is_cuda else 2**24
        return chart_batches(lengths, self.numbers or default, self.shape)

    def _check(self, words: Tensor, lengths: Tensor, rules: Tensor, start: Tensor) -> None:
        tokens, shape = int(lengths.sum()), self.shape
        for name, found, wanted in (
            ("scores of words", tuple(words.shape), (tokens, shape.preterminals)),
            ("scores of rules", tuple(rules.shape), (len(shape),)),
            ("scores of start symbols", tuple(start.shape), (shape.symbols,)),
        ):
            if found != wanted:
                raise InferenceError(f"{name} have shape {found}, but {wanted} is needed here.")


class _LogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        charts: InsideOutside,
        lengths: Tensor,
        words: Tensor,
        rules: Tensor,
        start: Tensor,
    ) -> Tensor:
        ctx.charts, ctx.lengths = charts, lengths
        ctx.save_for_backward(words, rules, start)
        grammar = GrammarWeights.of(rules, start, charts.shape.to(words.device))
        value = words.new_full((len(lengths),), -torch.inf)
        for batch in charts._batches(words, lengths):
            value[batch.sentences] = inside.log_likelihood(words[batch.tokens], grammar)
        return value

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        words, rules, start = ctx.saved_tensors
        beliefs = ctx.charts(words, ctx.lengths, rules, start, outputs[0])
        return None, None, beliefs.words, beliefs.rules, beliefs.start
