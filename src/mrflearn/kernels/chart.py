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

Letters in shapes: b: sentences, the longest of n words; m: spans of one width, by first word; k:
splits; p: preterminals; a: phrases; x: symbols of one sort; s: symbols; r: rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.log_product import shifted_exp
from mrflearn.kernels.rules import MAX, AppliedRules, RuleShape, Splits, applied_rules

Nodes = Float[Tensor, "b n+1 n+1 a"]  # of each phrase over each span, by first word and width
Words = Float[Tensor, "b n p"]  # scores (or weights) of the preterminals of every word
PerSentence = Float[Tensor, " b"]
Lengths = Int[Tensor, " b"]

# Numbers for every span of sentences, scaled span by span.


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
    def of(cls, value: Float[Tensor, "b n+1 n+1 x"], *, logs: bool = False) -> Spans:
        """A table that holds `value` everywhere; a word alone has the scale 0."""
        scale = torch.full_like(value[..., 0], -torch.inf, dtype=torch.float64)
        start, end, n = scale, scale.clone(), value.shape[1] - 1
        start[:, :n, 1] = end[:, 1:, n - 1] = 0.0
        return cls(value, value.clone(), start, end, logs)

    @property
    def length(self) -> int:
        """The number of words of the longest sentence."""
        return self.by_start.shape[1] - 1

    def put(self, width: int, value: Float[Tensor, "b m x"], scale: Float[Tensor, "b m"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it again."""
        (here, own), end = self.at(width), self.length - width
        if self.logs:
            here.copy_(value)
        else:
            largest = value.amax(dim=-1)
            torch.div(value, torch.where(largest > 0, largest, 1.0).unsqueeze(-1), out=here)
            torch.add(scale, largest.log(), out=own)
            self.end_scale[:, width:, end] = own
        self.by_end[:, width:, end] = here

    def at(self, width: int) -> tuple[Float[Tensor, "b m x"], Float[Tensor, "b m"]]:
        """The scaled numbers and the scales of all spans of a width."""
        spans = slice(0, self.length - width + 1)
        return self.by_start[:, spans, width], self.start_scale[:, spans, width]

    def splits(self, width: int) -> tuple[Splits, Tensor, Tensor, Tensor]:
        """All splits of the spans of a width, brought to one scale, and this scale.

        Into two phrases; and what stands beside a word on the left, and a word on the right.
        """
        n, m, shorter = self.length, self.length - width + 1, self.at(width - 1)[0]
        # Parts of 2 ... width - 2 words on the left, so of width - 2 ... 2 on the right.
        left, right = self.by_start[:, :m, 2 : width - 1], self.by_end[:, width:, m + 1 : n - 1]
        if self.logs:
            return Splits(left, right, None), shorter[:, 1:], shorter[:, :-1], shorter
        scale = self.start_scale[:, :m, 1:width] + self.end_scale[:, width:, m:n]
        share, top = shifted_exp(scale, -1)
        share = share.to(left.dtype)
        after, before = shorter[:, 1:] * share[..., :1], shorter[:, :-1] * share[..., -1:]
        return Splits(left, right, share[..., 1:-1]), after, before, top

    def parents(self, outside: Spans, width: int) -> tuple[Splits, Splits, Tensor, Tensor, Tensor]:
        """Where the spans of a width may stand, brought to one scale, and this scale.

        These are the insides.  Parents and other parts where a span is the left part, and where it
        is the right part; parents where a word is on the right, and where one is on the left.
        """
        n, m = self.length, self.length - width + 1
        # Parents of width + 1 ... n words, and other parts of 1 ... n - width words: in step, and
        # in step the other way round where spans are kept by their ends.
        as_left = outside.start_scale[:, :m, width + 1 :] + self.start_scale[:, width:, 1:m]
        as_right = outside.end_scale[:, width:, : m - 1] + self.end_scale[:, :m, width:n]
        share, top = shifted_exp(torch.cat([as_left, as_right], dim=-1), -1)
        share = share.to(self.by_start.dtype)
        above = outside.at(width + 1)[0]
        on_left = outside.by_start[:, :m, width + 2 :], self.by_start[:, width:, 2:m]
        on_right = outside.by_end[:, width:, : m - 2], self.by_end[:, :m, width : n - 1]
        return (
            Splits(*on_left, share[..., 1 : m - 1], "before the end"),
            Splits(*on_right, share[..., m - 1 : -1], "after the start"),
            above * share[:, :-1, :1],
            above * share[:, 1:, -1:],
            top,
        )


# The recursion, width by width: up for the inside, down for the outside.


@dataclass(frozen=True, eq=False)
class Chart:
    """The inside of every span of sentences of two words or more."""

    words: Words
    rules: AppliedRules
    inside: Spans
    nodes: tuple[Nodes, Float[Tensor, "b n+1 n+1"]] | None = None

    @classmethod
    def of(
        cls, words: Words, rules: AppliedRules, phrases: int, nodes: Nodes | None = None
    ) -> Chart:
        """The sum (or the maximum, by the rules' semiring) over all parses of each span.

        `nodes` are scores of phrases over spans, which count beside those of their rules.
        In memory spans are by width, symbol, first word and sentence where rules want it so.
        """
        (b, n, _), zero = words.shape, rules.semiring.zero
        if rules.weight.ndim == 1:  # sparse rules
            words = words.permute(2, 1, 0).contiguous().permute(2, 1, 0)
            value = words.new_full((n + 1, phrases, n + 1, b), zero).permute(3, 2, 0, 1)
        else:
            value = words.new_full((b, n + 1, n + 1, phrases), zero)
        logs = rules.semiring is MAX
        scored = None if nodes is None else (nodes, nodes[..., 0]) if logs else _near_one(nodes)
        chart = cls(words, rules, Spans.of(value, logs=logs), scored)
        if n > 1:
            chart._fill()
        return chart

    @cached_property
    def beside(self) -> tuple[Tensor, Tensor]:
        """What rules become beside each word as the left part, and as the right part."""
        rules = self.rules
        return rules.word_left.left.beside(self.words), rules.word_right.right.beside(self.words)

    def _fill(self) -> None:
        words, spans, rules = self.words, self.inside, self.rules
        n, two, up = spans.length, rules.words.parent, rules.phrases.parent
        value = two.apply(two.pairs(Splits.single(words[:, :-1], words[:, 1:])))
        spans.put(2, *self._scored(2, value, torch.zeros_like(spans.at(2)[1])))
        for width in range(3, n + 1):
            splits, after, before, top = spans.splits(width)
            value = up.apply(up.pairs(splits))
            self._add_beside_words((value, after), (value, before), width - 1, up=True)
            spans.put(width, *self._scored(width, value, top))

    def _scored(self, width: int, value: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The values of all spans of a width with the scores of their nodes."""
        if self.nodes is None:
            return value, scale
        weight, shift = (own[:, : value.shape[1], width] for own in self.nodes)
        return (value + weight, scale) if self.inside.logs else (value * weight, scale + shift)

    def _add_beside_words(
        self, right: tuple[Tensor, Tensor], left: tuple[Tensor, Tensor], width: int, *, up: bool
    ) -> None:
        """Adds to totals by values that stand right of a word on the left, and left of one."""
        n, (on_left, on_right) = self.inside.length, self.beside
        self.rules.word_left.left.add(*right, on_left, slice(0, n - width), up=up)
        self.rules.word_right.right.add(*left, on_right, slice(width, n), up=up)

    def top(self, lengths: Lengths) -> tuple[Float[Tensor, "b a"], PerSentence]:
        """The inside of complete sentences, and its scale."""
        whole = torch.arange(len(self.words), device=self.words.device), 0, lengths
        return self.inside.by_start[whole], self.inside.start_scale[whole]

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: PerSentence, weight: PerSentence, lengths: Lengths
    ) -> tuple[Words, Float[Tensor, " r"], Nodes | None]:
        """Counts of preterminals at each word, of rules, and of nodes if these have scores.

        Sentence b counts `weight[b]` times.

        `root` and its scale are the outside of complete sentences, divided by their sums, so that
        inside times outside is the probability that a symbol stands over a span.
        """
        inside, rules, n = self.inside, self.rules.phrases, self.inside.length
        outside = Spans.of(torch.zeros_like(inside.by_start))
        counts, sizes = torch.zeros(()), set(lengths.tolist())
        nodes = None if self.nodes is None else torch.zeros_like(inside.by_start)
        for width in range(n, 1, -1):
            here, own_scale = inside.at(width)
            value, top = torch.zeros_like(here), torch.zeros_like(own_scale)
            if width < n:
                as_left, as_right, word_after, word_before, top = inside.parents(outside, width)
                own = _weighed(here, own_scale + top, weight)
                pairs = rules.left.pairs(as_left)
                found = rules.left.count(own, pairs)
                counts = counts.add_(found) if counts.ndim else found
                value = rules.left.apply(pairs)
                value += rules.right.apply(rules.right.pairs(as_right))
                parts = (value[:, 1:], word_before), (value[:, :-1], word_after)
                self._add_beside_words(*parts, width, up=False)
            if width in sizes:
                whole = lengths == width
                value[:, 0] = torch.where(whole.unsqueeze(1), root, value[:, 0])
                top[:, 0] = torch.where(whole, scale, top[:, 0])
            # Phrases that cannot stand here must not decide the scale.
            value = torch.where(here > 0, value, 0.0)
            if nodes is not None:
                found = _weighed(here, own_scale + top, weight) * value
                nodes[:, : found.shape[1], width] = found
            outside.put(width, *self._scored(width, value, top))
        return *self._words(outside, counts, weight), nodes

    def _words(
        self, outside: Spans, counts: Tensor, weight: PerSentence
    ) -> tuple[Words, Float[Tensor, " r"]]:
        """The last step down, to single words; `counts` are those of the rules above them."""
        words, rules = self.words, self.rules
        as_left, as_right, word_after, word_before, top = self.inside.parents(outside, 1)
        own = _weighed(words, top, weight)
        with_right = rules.word_left.left.pairs(as_left)
        with_left = rules.word_right.right.pairs(as_right)
        value = rules.word_left.left.apply(with_right)
        value += rules.word_right.right.apply(with_left)
        left, right = rules.words.left, rules.words.right
        two = left.pairs(Splits.single(word_after, words[:, 1:]))
        value[:, :-1] += left.apply(two)
        value[:, 1:] += right.apply(right.pairs(Splits.single(word_before, words[:, :-1])))
        found = (
            counts,
            rules.word_left.left.count(own, with_right),
            rules.word_right.right.count(own, with_left),
            left.count(own[:, :-1], two),
        )
        return own * value, rules.weighed(found)


def _weighed(
    value: Float[Tensor, "b m x"], scale: Float[Tensor, "b m"], weight: PerSentence
) -> Float[Tensor, "b m x"]:
    """value * exp(scale) * weight, but finite.

    Where rules have no weight for what stands inside and outside of a span, the product of both can
    be beyond all numbers; it is multiplied by that zero in the end and must not be infinite before.
    """
    bounded = scale.clamp(max=math.log(torch.finfo(value.dtype).max) / 2).exp().to(value.dtype)
    return value * (bounded * weight.unsqueeze(1)).unsqueeze(-1)


# Scores in nats become numbers up to 1, and what was divided out of them.


def _near_one(scores: Float[Tensor, "*k x"]) -> tuple[Float[Tensor, "*k x"], Float[Tensor, "*k"]]:
    """exp(scores - shift) with the largest score of each row as its shift (0 if all are -inf)."""
    if not scores.shape[-1]:
        return scores.clone(), scores.new_zeros(scores.shape[:-1])
    return shifted_exp(scores, -1)


@dataclass(frozen=True, eq=False)
class GrammarWeights:
    """A grammar's rules and start symbols, no longer in logarithms; the largest of each is 1."""

    shape: RuleShape
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    shifts: tuple[Float[Tensor, ""], Float[Tensor, ""]]  # of every rule, and of the start

    @classmethod
    def of(
        cls, rules: Float[Tensor, " r"], start: Float[Tensor, " s"], shape: RuleShape
    ) -> GrammarWeights:
        """The weights for scores in nats."""
        (rules, rule_shift), (start, start_shift) = _near_one(rules), _near_one(start)
        return cls(shape, rules, start, (rule_shift, start_shift))

    @cached_property
    def applied(self) -> AppliedRules:
        """The rules in the form that suits the grammar."""
        return applied_rules(self.shape, self.rules, dense=self.shape.dense)

    def unscaled(
        self, value: Tensor, word_shift: Float[Tensor, "b n"], lengths: Lengths
    ) -> PerSentence:
        """The logarithm of a sum over parses with all shifts undone."""
        rules, start = (shift.double() for shift in self.shifts)
        shift = word_shift.double().sum(dim=1) + (lengths - 1) * rules + start
        return (value + shift).to(word_shift.dtype)


# Sums over all parses of sentences, and expected counts.  Sentences of one word come alone; longer
# ones are padded to the longest with words of score -inf, and need a grammar with phrases.


class ChartBeliefs(NamedTuple):
    """Log-likelihoods, and how often everything is used on average given the sentences.

    A sentence that the grammar cannot produce has a log-partition of -inf and counts of zero.
    """

    log_partition: PerSentence
    words: Float[Tensor, "*t p"]  # each preterminal at each word
    rules: Float[Tensor, " r"]  # summed over sentences, as are the start symbols
    start: Float[Tensor, " s"]
    nodes: Nodes | None = None  # each phrase over each span, where these have scores

    @property
    def impossible(self) -> Int[Tensor, " i"]:
        """The sentences without any parse."""
        return (self.log_partition == -torch.inf).nonzero()[:, 0]


def log_likelihood(
    scores: Words, grammar: GrammarWeights, lengths: Lengths, nodes: Nodes | None = None
) -> PerSentence:
    """The log-sum of the scores of all parses of each sentence; -inf where there is none."""
    words, word_shift = _near_one(scores)
    _, own, top, scale = _roots(words, grammar, lengths, nodes)
    return grammar.unscaled((top @ grammar.start[own]).log() + scale, word_shift, lengths)


def expected_counts(
    scores: Words,
    grammar: GrammarWeights,
    weight: PerSentence,
    lengths: Lengths,
    nodes: Nodes | None = None,
) -> ChartBeliefs:
    """Beliefs where sentence b counts `weight[b]` times."""
    words, word_shift = _near_one(scores)
    chart, own, top, scale = _roots(words, grammar, lengths, nodes)
    joint = top * grammar.start[own]
    total = joint.sum(dim=1)
    share = joint / torch.where(total > 0, total, 1.0).unsqueeze(1)
    value = total.log() + scale
    rules, start = torch.zeros_like(grammar.rules), torch.zeros_like(grammar.start)
    start[own] = weight @ share
    if chart is None:
        words = share.unsqueeze(1) * weight[:, None, None]
        nodes = None if nodes is None else torch.zeros_like(nodes)
    else:
        root = torch.where(top > 0, grammar.start[own], 0.0)
        root_scale = torch.where(total > 0, -value, -torch.inf)
        words, rules, nodes = chart.expected_counts(root, root_scale, weight, lengths)
    return ChartBeliefs(grammar.unscaled(value, word_shift, lengths), words, rules, start, nodes)


def _roots(
    words: Words, grammar: GrammarWeights, lengths: Lengths, nodes: Nodes | None
) -> tuple[Chart | None, slice, Float[Tensor, "b x"], Tensor | float]:
    """The chart, if there is one; which symbols are roots, their inside, and its scale."""
    phrases = grammar.shape.phrases
    if words.shape[1] == 1:
        return None, slice(phrases, None), words[:, 0], 0.0
    chart = Chart.of(words, grammar.applied, phrases, nodes)
    return chart, slice(0, phrases), *chart.top(lengths)


def best_inside(
    scores: Words, rules: Float[Tensor, " r"], shape: RuleShape, nodes: Nodes | None = None
) -> Float[Tensor, "b a n+1 n+1"]:
    """The score of the best parse of each phrase over each span, by first word and width."""
    applied = applied_rules(shape, rules, semiring=MAX)
    return Chart.of(scores, applied, shape.phrases, nodes).inside.by_start.movedim(-1, 1)


def log_inside(
    scores: Words, rules: Float[Tensor, " r"], shape: RuleShape
) -> Float[Tensor, "a b n+1 n+1"]:
    """The log-sum over the parses of each phrase over each span, by first word and width."""
    n, (words, word_shift) = scores.shape[1], _near_one(scores)
    grammar = GrammarWeights.of(rules, scores.new_zeros(shape.symbols), shape)
    spans = Chart.of(words, grammar.applied, shape.phrases).inside
    # A span of w words has taken w shifts of words and w - 1 of rules.
    width = torch.arange(n + 1, device=scores.device)
    ends = pad(word_shift.cumsum(1), (1, 0))
    last = (width[:, None] + width).clamp(max=n)
    shift = ends[:, last] - ends.unsqueeze(-1) + (width - 1) * grammar.shifts[0]
    chart = spans.by_start.log() + (spans.start_scale + shift).unsqueeze(-1)
    return chart.movedim(-1, 0).to(scores.dtype)
