"""Inside and outside of a grammar's charts, by dense or by listed rules.

Letters in shapes: b: sentences of length n; p: preterminals; a: phrases; r: rules.

Letters in shapes: b: sentences of length n; p: preterminals; a: phrases; s: symbols; r: rules.
Sums are exact up to rounding as long as the phrases that can stand over one span differ by no more
than the range of the number type (a factor of 1e38 in float32, of 1e308 in float64).
`inside_reference` is the plain twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels import chart_dense, chart_listed
from mrflearn.kernels import chart_dense as outside_dense
from mrflearn.kernels import chart_listed as outside_listed
from mrflearn.kernels.chart_dense import DenseRules, GrammarWeights, WordMatrices, near_one
from mrflearn.kernels.chart_listed import Table
from mrflearn.kernels.rules import RuleShape
from mrflearn.kernels.spans import SpanRows, SpanSlices, SpanTable, WordRows

# Charts of sentences of one length, two words or more: one shape of answer, two kinds of
# grammar.


@dataclass(frozen=True, eq=False)
class DenseChart:
    """A chart for a grammar with every rule."""

    words: Float[Tensor, "b n p"]
    rules: DenseRules
    matrices: WordMatrices
    inside: SpanTable

    @classmethod
    def of(cls, words: Float[Tensor, "b n p"], grammar: GrammarWeights) -> DenseChart:
        """The inside of all spans."""
        rules = DenseRules.of(grammar)
        matrices = WordMatrices.of(rules, words)
        return cls(words, rules, matrices, chart_dense.inside(words, rules, matrices))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, " b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.words.shape[1])
        return value[:, 0], scale[:, 0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        return (self.inside.by_start.log() + self.inside.start_scale.unsqueeze(-1)).movedim(-1, 0)

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, " b"], weight: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, " r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_dense.expected_counts(
            self.words, self.rules, self.inside, self.matrices, root, scale, weight
        )
        return words, rules.flat()


@dataclass(frozen=True, eq=False)
class ListedChart(Generic[Table]):
    """A chart for a grammar given by a list of rules; its spans are kept as suits the device."""

    words: Float[Tensor, "p n b"]
    rows: WordRows
    inside: Table

    @staticmethod
    def of(
        words: Float[Tensor, "b n p"], grammar: GrammarWeights, *, wide: bool | None = None
    ) -> ListedChart[SpanRows] | ListedChart[SpanSlices]:
        """The inside of all spans; `wide`: all splits of a width at once, by default on a GPU."""
        rules, turned = grammar.listed, words.permute(2, 1, 0).contiguous()
        rows = WordRows.of(rules, turned)
        if words.is_cuda if wide is None else wide:
            table = SpanSlices.empty(turned, rules.symbols)
            return ListedChart(turned, rows, chart_listed.inside(turned, rules, rows, table))
        narrow = SpanRows.empty(turned.shape[1])
        return ListedChart(turned, rows, chart_listed.inside(turned, rules, rows, narrow))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, " b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.words.shape[1])
        return value[:, 0].t(), scale[0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        return self.inside.logarithm()

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, " b"], weight: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, " r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_listed.expected_counts(
            self.words, self.rows, self.inside, root.t(), scale, weight
        )
        return words.permute(2, 1, 0), rules


# Sums over all parses of sentences of one length, and expected counts, whatever the grammar.


class ChartCounts(NamedTuple):
    """Log-likelihoods, and expected counts given the sentences."""

    log_likelihood: Float[Tensor, " b"]
    words: Float[Tensor, "b n p"]
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]


def log_likelihood(scores: Float[Tensor, "b n p"], grammar: GrammarWeights) -> Float[Tensor, " b"]:
    """The log-sum of the scores of all parses of each sentence; -inf where there is none."""
    words, word_shift = near_one(scores)
    if words.shape[1] == 1:
        value = (words[:, 0] @ grammar.start_words).log() + grammar.shift(word_shift)
        return value.to(scores.dtype)
    if not grammar.shape.phrases:
        return scores.new_full((len(scores),), -torch.inf)
    top, scale = chart_of(words, grammar).top()
    value = (top @ grammar.start_phrases).log() + scale + grammar.shift(word_shift)
    return value.to(scores.dtype)


def expected_counts(
    scores: Float[Tensor, "b n p"], grammar: GrammarWeights, weight: Float[Tensor, " b"]
) -> ChartCounts:
    """Log-likelihoods, and counts where sentence b counts `weight[b]` times.

    Sentences without any parse have log-likelihood -inf, and count nothing.
    """
    words, word_shift = near_one(scores)
    shift, phrases = grammar.shift(word_shift), grammar.shape.phrases
    start = torch.zeros_like(grammar.start)
    if words.shape[1] == 1:
        total, share = _shares(words[:, 0] * grammar.start_words)
        start[phrases:] = weight @ share
        words = share.unsqueeze(1) * weight[:, None, None]
        value = (total.log() + shift).to(scores.dtype)
        return ChartCounts(value, words, torch.zeros_like(grammar.rules), start)
    if not phrases:
        value = scores.new_full((len(scores),), -torch.inf)
        return ChartCounts(value, torch.zeros_like(words), torch.zeros_like(grammar.rules), start)
    chart = chart_of(words, grammar)
    top, scale = chart.top()
    total, share = _shares(top * grammar.start_phrases)
    start[:phrases] = weight @ share
    root = torch.where(top > 0, grammar.start_phrases, 0.0)
    root_scale = torch.where(total > 0, -(total.log() + scale), -torch.inf)
    words, rules = chart.expected_counts(root, root_scale, weight)
    value = (total.log() + scale + shift).to(scores.dtype)
    return ChartCounts(value, words, rules, start)


def chart_of(
    words: Float[Tensor, "b n p"], grammar: GrammarWeights
) -> DenseChart | ListedChart[SpanRows] | ListedChart[SpanSlices]:
    """The inside of all spans, by the kernel that suits the grammar."""
    if grammar.shape.dense:
        return DenseChart.of(words, grammar)
    return ListedChart.of(words, grammar)


def _shares(value: Float[Tensor, "b x"]) -> tuple[Float[Tensor, " b"], Float[Tensor, "b x"]]:
    """The sum of each row, and the row divided by it (zero where the sum is)."""
    total = value.sum(dim=1)
    return total, value / torch.where(total > 0, total, 1.0).unsqueeze(1)


def log_inside(
    scores: Float[Tensor, "b n p"], rules: Float[Tensor, " r"], shape: RuleShape
) -> Float[Tensor, "a b n+1 n+1"]:
    """The log-sum over the parses of each phrase over each span, by first word and width."""
    b, n, _ = scores.shape
    if n == 1 or not shape.phrases:  # no phrase stands over one word, and none over any
        return scores.new_full((shape.phrases, b, n + 1, n + 1), -torch.inf)
    grammar = GrammarWeights.of(rules, scores.new_zeros(shape.symbols), shape)
    words, word_shift = near_one(scores)
    chart = chart_of(words, grammar).log_inside()
    # A span of w words has taken w shifts of words and w - 1 of rules.
    width = torch.arange(n + 1, device=scores.device)
    ends = torch.nn.functional.pad(word_shift.cumsum(1), (1, 0))
    last = (width[:, None] + width).clamp(max=n)
    shift = ends[:, last] - ends.unsqueeze(-1) + (width - 1) * grammar.rule_shift
    return (chart + shift).to(scores.dtype)
