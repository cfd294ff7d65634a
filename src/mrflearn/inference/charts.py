"""Inference in context-free grammars: inside-outside, parses, prefix probabilities.

Letters in shapes as in `inside_outside`.

Letters in shapes: n: words so far; p: preterminals; a: phrases; s: symbols; r: rules.
Rules and start symbols must be probabilities, and so must be the words that preterminals may still
become; scores of the words so far can be anything.

Letters in shapes: b: sentences; t: tokens, sentences laid end to end; p: preterminals;
s: symbols (phrases, then preterminals); r: rules.  Scores are in nats, log-zero is -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartBatch, chart_batches
from mrflearn.kernels import chart as inside
from mrflearn.kernels.chart import log_inside
from mrflearn.kernels.chart_dense import GrammarWeights
from mrflearn.kernels.left_corner import ending, left_corners
from mrflearn.kernels.parses import Forest, Parse, RuleLists, best_parses, best_scores, draw_parse
from mrflearn.kernels.rules import RuleShape

# Single parses of sentences: the best, the best few, or drawn at random.


Chart = Callable[[Tensor, Tensor, RuleShape], Float[Tensor, "a b n+1 n+1"]]


@final
@dataclass(frozen=True, eq=False)
class ParseSearch:
    """Finds or draws parses with the rules of a grammar, whatever the scores."""

    shape: RuleShape
    numbers: int = 2**24  # how many a batch of charts may hold; one sentence is always taken

    def best(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, " b"],
        rules: Float[Tensor, " r"],
        start: Float[Tensor, " s"],
    ) -> list[Parse | None]:
        """The best parse of each sentence, or None where there is none."""
        found = self.best_n(words, lengths, rules, start, 1)
        return [parses[0] if parses else None for parses in found]

    @torch.no_grad()
    def best_n(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, " b"],
        rules: Float[Tensor, " r"],
        start: Float[Tensor, " s"],
        count: int,
    ) -> list[list[Parse]]:
        """The `count` best parses of each sentence, best first; fewer where there are fewer."""
        if count < 1:
            raise InferenceError(f"the {count} best parses were asked for; 1 is the least.")
        found: list[list[Parse]] = [[] for _ in lengths]
        for sentence, forest in self._forests(best_scores, words, lengths, rules, start):
            found[sentence] = best_parses(forest, count)
        return found

    @torch.no_grad()
    def sample(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, " b"],
        rules: Float[Tensor, " r"],
        start: Float[Tensor, " s"],
        count: int,
        generator: np.random.Generator,
    ) -> list[list[Parse]]:
        """Parses drawn given each sentence, and their log-probabilities; none where none can be."""
        found: list[list[Parse]] = [[] for _ in lengths]
        for sentence, forest in self._forests(log_inside, words, lengths, rules, start):
            if forest.roots.max() > -np.inf:
                found[sentence] = [draw_parse(forest, generator) for _ in range(count)]
        return found

    def _forests(
        self, chart: Chart, words: Tensor, lengths: Tensor, rules: Tensor, start: Tensor
    ) -> Iterator[tuple[int, Forest]]:
        shape = self.shape.to(words.device)
        lists = RuleLists.of(shape, rules.double().cpu().numpy())
        for batch in chart_batches(lengths, self.numbers, self.shape):
            scores = words[batch.tokens]
            found = chart(scores, rules, shape)
            b, n, _ = scores.shape
            table = found.new_full((b, shape.symbols, n + 1, n + 1), -torch.inf)
            table[:, : shape.phrases] = found.transpose(0, 1)
            table[:, shape.phrases :, :n, 1] = scores.transpose(1, 2)
            roots = table[:, :, 0, n] + start
            for place, sentence in enumerate(batch.sentences.tolist()):
                numbers = table[place].double().cpu().numpy()
                yield sentence, Forest(lists, numbers, roots[place].double().cpu().numpy())


# The probability that a sentence begins with some words, and what comes next, for all words.


@dataclass(frozen=True, eq=False)
class PrefixBeliefs:
    """What is known after 0, 1, ... n words; everything in nats.

    `follows` and `ends` are conditional on the words so far: after k words the next one comes from
    preterminal p with probability exp(follows[k, p]), and exp(ends[k]) is what remains.  Where the
    words so far cannot begin a sentence, all three are -inf.
    """

    begins: Float[Tensor, " n+1"]  # the words so far begin a sentence, or are one
    ends: Float[Tensor, " n+1"]  # the sentence is over
    follows: Float[Tensor, "n+1 p"]


@final
@dataclass(frozen=True, eq=False)
class Prefix:
    """Left-to-right probabilities under a normalised grammar, prepared once for many sentences."""

    shape: RuleShape
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    ends: Float[Tensor, " s"]  # that a symbol's words are finitely many
    corners: Float[Tensor, "s s"]

    @classmethod
    def of(cls, rules: Float[Tensor, " r"], start: Float[Tensor, " s"], shape: RuleShape) -> Prefix:
        """What can be said before any word is known; rules and start symbols in nats."""
        shape = shape.to(rules.device)
        ends = ending(rules.exp(), shape)
        return cls(shape, rules, start, ends, left_corners(rules.exp(), shape, ends))

    @torch.no_grad()
    def __call__(self, words: Float[Tensor, "n p"]) -> PrefixBeliefs:
        """Beliefs after each word of the beginning of a sentence."""
        n, inside = len(words), self._inside(words)
        whole = torch.logsumexp(self.start.unsqueeze(1) + inside[:, 0], dim=0)
        begins = words.new_full((n + 1,), -torch.inf)
        follows = words.new_full((n + 1, self.shape.preterminals), -torch.inf)
        begins[0] = _log_product(self.start, self.ends.unsqueeze(1))[0]
        due = self.start
        above: list[Tensor] = []
        for k in range(n + 1):
            if k:
                begins[k] = begins[k - 1] + torch.logsumexp(follows[k - 1] + words[k - 1], dim=0)
                due = self._due(torch.stack(above, dim=1), inside)
            if begins[k] == -torch.inf:
                break
            reached = _log_product(due, self.corners)
            above.append(reached[: self.shape.phrases])
            follows[k] = reached[self.shape.phrases :] - begins[k]
        ends = torch.where(begins > -torch.inf, whole - begins, -torch.inf)
        return PrefixBeliefs(begins, ends, follows)

    def _inside(self, words: Float[Tensor, "n p"]) -> Float[Tensor, "s n+1 n+1"]:
        """The log-sum over parses of each symbol over each span, by first word and width."""
        n, phrases = len(words), self.shape.phrases
        inside = words.new_full((self.shape.symbols, n + 1, n + 1), -torch.inf)
        inside[phrases:, :n, 1:2] = words.t().unsqueeze(2)
        if n > 1:
            inside[:phrases] = log_inside(words.unsqueeze(0), self.rules, self.shape)[:, 0]
        return inside

    def _due(self, above: Float[Tensor, "a k"], inside: Tensor) -> Float[Tensor, " s"]:
        """The log-weight of symbols due at word k: right parts whose left parts end there.

        The left part B of a rule A -> B C has the words i to k, and A, scored by `above[:, i]`, is
        a left corner of what was due at word i.
        """
        shape, k = self.shape, above.shape[1]
        if not shape.phrases:
            return torch.full_like(self.start, -torch.inf)
        places = torch.arange(k, device=above.device)
        left = inside[:, places, k - places]
        above, top = _scaled(above + left.amax(dim=0))
        left = (left - left.amax(dim=0).clamp(min=torch.finfo(left.dtype).min)).exp()
        if shape.dense:
            table = self.rules.exp().view(shape.phrases, -1)
            joined = torch.einsum("ak,sk->as", above, left)
            total = joined.flatten() @ table.view(-1, shape.symbols)
        else:
            each = (above[shape.parent] * left[shape.left]).sum(dim=1) * self.rules.exp()
            total = above.new_zeros(shape.symbols).index_add(0, shape.right, each)
        return total.log() + top


def _log_product(scores: Float[Tensor, " x"], matrix: Float[Tensor, "x y"]) -> Float[Tensor, " y"]:
    """log(exp(scores) @ matrix)."""
    weights, top = _scaled(scores)
    return (weights @ matrix).log() + top


def _scaled(scores: Tensor) -> tuple[Tensor, Tensor]:
    """exp(scores - top) with the largest of all scores as top, or 0 if all are -inf."""
    top = scores.max()
    top = torch.where(top > -torch.inf, top, 0.0)
    return (scores - top).exp(), top


# Exact inference over all parses of sentences: the generalised inside-outside algorithm.


@dataclass(frozen=True, eq=False)
class ParseBeliefs:
    """Log-likelihoods, and how often everything is used on average given the sentences.

    A sentence that the grammar cannot produce has log-likelihood -inf and counts of zero.
    """

    log_likelihood: Float[Tensor, " b"]
    words: Float[Tensor, "t p"]  # each preterminal at each token
    rules: Float[Tensor, " r"]  # summed over sentences, as are the start symbols
    start: Float[Tensor, " s"]

    @property
    def impossible(self) -> Int[Tensor, " i"]:
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
        lengths: Int[Tensor, " b"],
        rules: Float[Tensor, " r"],
        start: Float[Tensor, " s"],
        weight: Float[Tensor, " b"] | None = None,
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
        lengths: Int[Tensor, " b"],
        rules: Float[Tensor, " r"],
        start: Float[Tensor, " s"],
    ) -> Float[Tensor, " b"]:
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
