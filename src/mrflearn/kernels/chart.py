"""Inside and outside of a grammar's charts: one layout of spans, and one recursion over it.

Numbers of a span are divided by their largest, whose logarithm is kept beside them: no sentence is
so long that anything underflows, and no logarithm stands in an inner loop.  Sums are exact up to
rounding as long as the phrases that can stand over one span differ by no more than the range of the
number type (a factor of 1e38 in float32, of 1e308 in float64).  A parse of n words uses n words,
n - 1 rules and one start symbol, so that one shift per word, one for all rules and one for the
start leave every parse of a sentence with the same factor.

A word beside a phrase turns the rules into a matrix that depends on the word's place only, so that
only splits with phrases on both sides are summed span by span.  How rules are applied, densely or
sparsely, by sums or by maxima, is the rules' affair (`kernels/rules`).

Letters in shapes: b: sentences of one length n; m: spans of one width, by first word; k: splits; p:
preterminals; a: phrases; x: symbols of one sort; s: symbols; r: rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.rules import (
    MAX,
    AppliedRules,
    BlockCounts,
    DenseBeside,
    RuleShape,
    SparseBeside,
    Splits,
    dense_rules,
    sparse_rules,
)

# Numbers for every span of sentences of one length, scaled span by span.


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans by their first word and width, and again by their end and falling width.

    All left parts of a span are one slice, and so are all its right parts, and the two slices are
    in step.  Spans that do not exist are zero, with a scale of -inf.  Scales grow with the length,
    and are in double precision whatever the numbers are.  Logarithms have no scales.
    """

    by_start: Float[Tensor, "b n+1 n+1 x"]  # [:, i, w] begins at word i and has w words
    by_end: Float[Tensor, "b n+1 n+1 x"]  # [:, e, n - w] ends before word e and has w words
    start_scale: Float[Tensor, "b n+1 n+1"]
    end_scale: Float[Tensor, "b n+1 n+1"]
    logs: bool

    @classmethod
    def empty(cls, words: Float[Tensor, "b n p"], symbols: int, rules: AppliedRules) -> Spans:
        """No span has anything; in memory by width, symbol, first word, sentence if need be."""
        (b, n, _), zero = words.shape, rules.semiring.zero
        if rules.symbols_first:
            value = words.new_full((n + 1, symbols, n + 1, b), zero).permute(3, 2, 0, 1)
        else:
            value = words.new_full((b, n + 1, n + 1, symbols), zero)
        scale = torch.full_like(value[..., 0], -torch.inf, dtype=torch.float64)
        return cls(value, value.clone(), scale, scale.clone(), rules.semiring is MAX)

    def blank(self) -> Spans:
        """A table of zeros for the same spans."""
        value, scale = (
            torch.zeros_like(self.by_start),
            torch.full_like(self.start_scale, -torch.inf),
        )
        return Spans(value, value.clone(), scale, scale.clone(), self.logs)

    @property
    def length(self) -> int:
        """The number of words of each sentence."""
        return self.by_start.shape[1] - 1

    def put(self, width: int, value: Float[Tensor, "b m x"], scale: Float[Tensor, "b m"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it again."""
        (here, own), end = self.at(width), self.length - width
        if self.logs:
            here.copy_(value)
            self.by_end[:, width:, end] = value
            return
        largest = value.amax(dim=-1)
        torch.div(value, torch.where(largest > 0, largest, 1.0).unsqueeze(-1), out=here)
        torch.add(scale, largest.log(), out=own)
        self.by_end[:, width:, end] = here
        self.end_scale[:, width:, end] = own

    def at(self, width: int) -> tuple[Float[Tensor, "b m x"], Float[Tensor, "b m"]]:
        """The scaled numbers and the scales of all spans of a width."""
        spans = slice(0, self.length - width + 1)
        return self.by_start[:, spans, width], self.start_scale[:, spans, width]

    def splits(self, width: int) -> tuple[Splits, Float[Tensor, "b m"]]:
        """All splits of the spans of a width into two phrases, and the scale of their sums."""
        n = self.length
        m, shorter = n - width + 1, self.at(width - 1)[1]
        # Parts of 2 ... width - 2 words on the left, so of width - 2 ... 2 on the right.
        on_left, on_right = slice(2, width - 1), slice(n - width + 2, n - 1)
        left, right = self.by_start[:, :m, on_left], self.by_end[:, width:, on_right]
        if self.logs:
            return Splits(left, right, None), shorter[:, 1:]
        scale = self.start_scale[:, :m, on_left] + self.end_scale[:, width:, on_right]
        top = _largest(scale, shorter[:, 1:], shorter[:, :-1])
        return Splits(left, right, _factor(scale, top.unsqueeze(-1), left.dtype)), top

    def parents(self, outside: Spans, width: int) -> Parents:
        """Where the spans of a width may stand beside a phrase; these are the insides."""
        n, kind = self.length, self.by_start.dtype
        m = n - width + 1
        # Parents of width + 2 ... n words, and other parts of 2 ... n - width words: in step, and
        # in step the other way round where spans are kept by their ends.
        longer, other = slice(width + 2, n + 1), slice(2, m)
        longer_end, other_end = slice(0, max(m - 2, 0)), slice(width, n - 1)
        as_left = outside.start_scale[:, :m, longer] + self.start_scale[:, width:, other]
        as_right = outside.end_scale[:, width:, longer_end] + self.end_scale[:, :m, other_end]
        above = outside.at(width + 1)[1]
        edges = pad(above, (1, 0), value=-torch.inf), pad(above, (0, 1), value=-torch.inf)
        top = _largest(as_left, as_right, *edges)
        shares = (_factor(scale, top.unsqueeze(-1), kind) for scale in (as_left, as_right))
        on_left = outside.by_start[:, :m, longer], self.by_start[:, width:, other]
        on_right = outside.by_end[:, width:, longer_end], self.by_end[:, :m, other_end]
        return Parents(
            Splits(*on_left, next(shares), "before the end"),
            Splits(*on_right, next(shares), "after the start"),
            top,
        )


class Parents(NamedTuple):
    """Parents and other parts, where spans are the left and the right part, and their scale."""

    as_left: Splits
    as_right: Splits
    top: Float[Tensor, "b m"]


def _largest(*scales: Float[Tensor, "b m *k"]) -> Float[Tensor, "b m"]:
    """Each span's largest scale of all that is to be summed for it; 0 where there is none."""
    tops = [scale if scale.ndim == 2 else scale.amax(dim=-1) for scale in scales if scale.numel()]
    top = torch.stack(tops).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)


def _factor(scale: Tensor, top: Tensor, dtype: torch.dtype) -> Tensor:
    """What numbers of one scale are multiplied by to have another, larger one."""
    return (scale - top).exp().to(dtype)


def _scaled(
    value: Float[Tensor, "b m x"], scale: Float[Tensor, "b m"], top: Float[Tensor, "b m"]
) -> Float[Tensor, "b m x"]:
    """Numbers of one scale at another, larger one."""
    return value * _factor(scale, top, value.dtype).unsqueeze(-1)


def _bounded_exp(scale: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(scale), but finite.

    Where rules have no weight for what stands inside and outside of a span, the product of both can
    be beyond all numbers; it is multiplied by that zero in the end and must not be infinite before.
    """
    return scale.clamp(max=math.log(torch.finfo(dtype).max) / 2).exp().to(dtype)


# The recursion, width by width: up for the inside, down for the outside.


@dataclass(frozen=True, eq=False)
class Chart:
    """The inside of every span of sentences of two words or more."""

    words: Float[Tensor, "b n p"]
    rules: AppliedRules
    inside: Spans

    @classmethod
    def of(cls, words: Float[Tensor, "b n p"], rules: AppliedRules, phrases: int) -> Chart:
        """The sum (or the maximum, by the rules' semiring) over all parses of each span."""
        if rules.symbols_first:
            words = words.permute(2, 1, 0).contiguous().permute(2, 1, 0)
        chart = cls(words, rules, Spans.empty(words, phrases, rules))
        chart._fill()
        return chart

    @cached_property
    def beside(self) -> tuple[DenseBeside | SparseBeside, DenseBeside | SparseBeside]:
        """What rules become beside each word as the left part, and as the right part."""
        rules = self.rules
        return rules.word_left.left.beside(self.words), rules.word_right.right.beside(self.words)

    def _fill(self) -> None:
        words, spans, rules = self.words, self.inside, self.rules
        n, two, up = spans.length, rules.words.parent, rules.phrases.parent
        value = two.apply(two.pairs(Splits.single(words[:, :-1], words[:, 1:])))
        spans.put(2, value, torch.zeros_like(spans.at(2)[1]))
        left, right = self.beside
        for width in range(3, n + 1):
            splits, top = spans.splits(width)
            shorter, scale = spans.at(width - 1)
            after, before = shorter[:, 1:], shorter[:, :-1]
            if not spans.logs:
                after = _scaled(after, scale[:, 1:], top)
                before = _scaled(before, scale[:, :-1], top)
            value = up.apply(up.pairs(splits))
            left.add_up(value, after, slice(0, n - width + 1))
            right.add_up(value, before, slice(width - 1, n))
            spans.put(width, value, top)

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, " b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.inside.length)
        return value[:, 0], scale[:, 0]

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, " b"], weight: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, " r"]]:
        """Counts of preterminals at each word, and of rules; sentence b counts `weight[b]` times.

        `root` and its scale are the outside of whole sentences, divided by their sums, so that
        inside times outside is the probability that a symbol stands over a span.
        """
        inside, rules, n = self.inside, self.rules.phrases, self.inside.length
        outside = inside.blank()
        outside.put(n, root.unsqueeze(1), scale.unsqueeze(1))
        counts: Tensor | None = None
        left, right = self.beside
        for width in range(n - 1, 1, -1):
            parents, (here, own_scale) = inside.parents(outside, width), inside.at(width)
            own = self._own(here, own_scale + parents.top, weight)
            pairs = rules.left.pairs(parents.as_left)
            found = rules.left.count(own, pairs)
            counts = found if counts is None else counts.add_(found)
            value = rules.left.apply(pairs)
            value += rules.right.apply(rules.right.pairs(parents.as_right))
            above, top = outside.at(width + 1), parents.top
            left.add_down(value[:, 1:], _scaled(*above, top[:, 1:]), slice(0, n - width))
            right.add_down(value[:, :-1], _scaled(*above, top[:, :-1]), slice(width, n))
            # Phrases that cannot stand here must not decide the scale.
            outside.put(width, torch.where(here > 0, value, 0.0), top)
        return self._words(outside, counts, weight)

    def _words(
        self, outside: Spans, counts: Tensor | None, weight: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, " r"]]:
        """The last step down, to single words; `counts` are those of the rules above them."""
        words, rules = self.words, self.rules
        as_left, as_right, top = self.inside.parents(outside, 1)
        own = self._own(words, top, weight)
        with_right = rules.word_left.left.pairs(as_left)
        with_left = rules.word_right.right.pairs(as_right)
        value = rules.word_left.left.apply(with_right)
        value += rules.word_right.right.apply(with_left)
        left, right = rules.words.left, rules.words.right
        above = outside.at(2)
        two = left.pairs(Splits.single(_scaled(*above, top[:, :-1]), words[:, 1:]))
        value[:, :-1] += left.apply(two)
        other = right.pairs(Splits.single(_scaled(*above, top[:, 1:]), words[:, :-1]))
        value[:, 1:] += right.apply(other)
        found = BlockCounts(
            torch.zeros(()) if counts is None else counts,
            rules.word_left.left.count(own, with_right),
            rules.word_right.right.count(own, with_left),
            left.count(own[:, :-1], two),
        )
        return own * value, rules.flat(found)

    def _own(
        self,
        value: Float[Tensor, "b m x"],
        scale: Float[Tensor, "b m"],
        weight: Float[Tensor, " b"],
    ) -> Float[Tensor, "b m x"]:
        return value * (_bounded_exp(scale, value.dtype) * weight.unsqueeze(1)).unsqueeze(-1)


# Scores in nats become numbers up to 1, and what was divided out of them.


def _near_one(scores: Float[Tensor, "*k x"]) -> tuple[Float[Tensor, "*k x"], Float[Tensor, "*k"]]:
    """exp(scores - shift) with the largest score of each row as its shift (0 if all are -inf)."""
    if not scores.shape[-1]:
        return scores.clone(), scores.new_zeros(scores.shape[:-1])
    shift = scores.amax(dim=-1)
    shift = torch.where(shift > -torch.inf, shift, 0.0)
    return (scores - shift.unsqueeze(-1)).exp(), shift


@dataclass(frozen=True, eq=False)
class GrammarWeights:
    """A grammar's rules and start symbols, no longer in logarithms; the largest of each is 1."""

    shape: RuleShape
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    rule_shift: Float[Tensor, ""]
    start_shift: Float[Tensor, ""]

    @classmethod
    def of(
        cls, rules: Float[Tensor, " r"], start: Float[Tensor, " s"], shape: RuleShape
    ) -> GrammarWeights:
        """The weights for scores in nats."""
        (rules, rule_shift), (start, start_shift) = _near_one(rules), _near_one(start)
        return cls(shape, rules, start, rule_shift, start_shift)

    @cached_property
    def applied(self) -> AppliedRules:
        """The rules in the form that suits the grammar."""
        return (dense_rules if self.shape.dense else sparse_rules)(self.shape, self.rules)

    def chart(self, words: Float[Tensor, "b n p"]) -> Chart:
        """The inside of all spans."""
        return Chart.of(words, self.applied, self.shape.phrases)

    def shift(self, word_shift: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """What to add to the logarithm of a sum over parses."""
        fixed = (word_shift.shape[1] - 1) * self.rule_shift.double() + self.start_shift.double()
        return word_shift.double().sum(dim=1) + fixed


# Sums over all parses of sentences of one length, and expected counts.


class ChartCounts(NamedTuple):
    """Log-likelihoods, and expected counts given the sentences."""

    log_likelihood: Float[Tensor, " b"]
    words: Float[Tensor, "b n p"]
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]


def log_likelihood(scores: Float[Tensor, "b n p"], grammar: GrammarWeights) -> Float[Tensor, " b"]:
    """The log-sum of the scores of all parses of each sentence; -inf where there is none."""
    words, word_shift = _near_one(scores)
    phrases = grammar.shape.phrases
    if words.shape[1] == 1:
        value = (words[:, 0] @ grammar.start[phrases:]).log()
    elif phrases:
        top, scale = grammar.chart(words).top()
        value = (top @ grammar.start[:phrases]).log() + scale
    else:
        value = scores.new_full((len(scores),), -torch.inf)
    return (value + grammar.shift(word_shift)).to(scores.dtype)


def expected_counts(
    scores: Float[Tensor, "b n p"], grammar: GrammarWeights, weight: Float[Tensor, " b"]
) -> ChartCounts:
    """Log-likelihoods, and counts where sentence b counts `weight[b]` times.

    Sentences without any parse have log-likelihood -inf, and count nothing.
    """
    words, word_shift = _near_one(scores)
    phrases = grammar.shape.phrases
    rules, start = torch.zeros_like(grammar.rules), torch.zeros_like(grammar.start)
    if words.shape[1] == 1:
        total, share = _shares(words[:, 0] * grammar.start[phrases:])
        start[phrases:] = weight @ share
        words, value = share.unsqueeze(1) * weight[:, None, None], total.log()
    elif phrases:
        chart = grammar.chart(words)
        top, scale = chart.top()
        total, share = _shares(top * grammar.start[:phrases])
        start[:phrases] = weight @ share
        root = torch.where(top > 0, grammar.start[:phrases], 0.0)
        value = total.log() + scale
        root_scale = torch.where(total > 0, -value, -torch.inf)
        words, rules = chart.expected_counts(root, root_scale, weight)
    else:
        words, value = torch.zeros_like(words), scores.new_full((len(scores),), -torch.inf)
    value = (value + grammar.shift(word_shift)).to(scores.dtype)
    return ChartCounts(value, words, rules, start)


def _shares(value: Float[Tensor, "b x"]) -> tuple[Float[Tensor, " b"], Float[Tensor, "b x"]]:
    """The sum of each row, and the row divided by it (zero where the sum is)."""
    total = value.sum(dim=1)
    return total, value / torch.where(total > 0, total, 1.0).unsqueeze(1)


def log_inside(
    scores: Float[Tensor, "b n p"],
    rules: Float[Tensor, " r"],
    shape: RuleShape,
    *,
    best: bool = False,
) -> Float[Tensor, "a b n+1 n+1"]:
    """The log-sum over the parses of each phrase over each span, by first word and width.

    `best`: the score of the best of them instead.
    """
    b, n, _ = scores.shape
    if n == 1 or not shape.phrases:  # no phrase stands over one word, and none over any
        return scores.new_full((shape.phrases, b, n + 1, n + 1), -torch.inf)
    if best:
        spans = Chart.of(scores, sparse_rules(shape, rules, MAX), shape.phrases).inside
        return spans.by_start.movedim(-1, 0)
    words, word_shift = _near_one(scores)
    grammar = GrammarWeights.of(rules, scores.new_zeros(shape.symbols), shape)
    spans = grammar.chart(words).inside
    # A span of w words has taken w shifts of words and w - 1 of rules.
    width = torch.arange(n + 1, device=scores.device)
    ends = pad(word_shift.cumsum(1), (1, 0))
    last = (width[:, None] + width).clamp(max=n)
    shift = ends[:, last] - ends.unsqueeze(-1) + (width - 1) * grammar.rule_shift
    chart = spans.by_start.log() + (spans.start_scale + shift).unsqueeze(-1)
    return chart.movedim(-1, 0).to(scores.dtype)
