"""Sums over all parses of sentences of one length, and expected counts, whatever the grammar.

Letters in shapes: b: sentences of length n; p: preterminals; a: phrases; s: symbols; r: rules.
Sums are exact up to rounding as long as the phrases that can stand over one span differ by no more
than the range of the number type (a factor of 1e38 in float32, of 1e308 in float64).
`inside_reference` is the plain twin.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.chart import DenseChart, ListedChart
from mrflearn.kernels.inside_input import GrammarWeights, near_one
from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.kernels.span_rows import SpanRows
from mrflearn.kernels.span_slices import SpanSlices


class ChartCounts(NamedTuple):
    """Log-likelihoods, and expected counts given the sentences."""

    log_likelihood: Float[Tensor, "b"]
    words: Float[Tensor, "b n p"]
    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]


def log_likelihood(scores: Float[Tensor, "b n p"], grammar: GrammarWeights) -> Float[Tensor, "b"]:
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
    scores: Float[Tensor, "b n p"], grammar: GrammarWeights, weight: Float[Tensor, "b"]
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


def _shares(value: Float[Tensor, "b x"]) -> tuple[Float[Tensor, "b"], Float[Tensor, "b x"]]:
    """The sum of each row, and the row divided by it (zero where the sum is)."""
    total = value.sum(dim=1)
    return total, value / torch.where(total > 0, total, 1.0).unsqueeze(1)


def log_inside(
    scores: Float[Tensor, "b n p"], rules: Float[Tensor, "r"], shape: RuleShape
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
