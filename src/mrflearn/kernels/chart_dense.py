"""Inside and outside where rules are dense tables.

A parse of n words uses n words, n - 1 rules and one start symbol, so that one shift a word, one for
all rules and one for the start leave every parse of a sentence with the same factor.

Letters in shapes: b: sentences of length n; m: spans of one width; k: split points; p:
preterminals; a, x, y: phrases (parent, left and right part).
A part of one word is a preterminal and a longer one a phrase.  So a word beside a phrase turns the
rules into a matrix that depends on the word's place only, and only splits with phrases on both
sides are summed span by span: first over the splits, then over the rules.

Letters in shapes as in `inside_dense`.  Outside numbers are divided by the sentence's sum, so that
inside times outside is the probability that a symbol stands over a span.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.rules import ListedRules, RuleShape
from mrflearn.kernels.spans import SpanTable, bounded_exp, factor, largest_of

# Scores of words, rules and start symbols as numbers up to 1, and what was divided out of them.


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
        rule_weights, rule_shift = near_one(rules)
        start_weights, start_shift = near_one(start)
        return cls(shape, rule_weights, start_weights, rule_shift, start_shift)

    @property
    def start_phrases(self) -> Float[Tensor, " a"]:
        """The weights of phrases at the root."""
        return self.start[: self.shape.phrases]

    @property
    def start_words(self) -> Float[Tensor, " p"]:
        """The weights of preterminals at the root, for sentences of one word."""
        return self.start[self.shape.phrases :]

    @cached_property
    def listed(self) -> ListedRules:
        """The rules as matrices, for grammars where few rules have a weight."""
        return ListedRules.of(self.shape.blocks, self.rules, self.shape.phrases)

    def shift(self, word_shift: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """What to add to the logarithm of a sum over parses."""
        length = word_shift.shape[1]
        fixed = (length - 1) * self.rule_shift.double() + self.start_shift.double()
        return word_shift.double().sum(dim=1) + fixed


def near_one(scores: Float[Tensor, "*k x"]) -> tuple[Float[Tensor, "*k x"], Float[Tensor, "*k"]]:
    """exp(scores - shift) with the largest score of each row as its shift (0 if all are -inf)."""
    if not scores.shape[-1]:
        return scores.clone(), scores.new_zeros(scores.shape[:-1])
    shift = scores.amax(dim=-1)
    shift = torch.where(shift > -torch.inf, shift, 0.0)
    return (scores - shift.unsqueeze(-1)).exp(), shift


# The inside pass where every rule has a weight: products of matrices, one width at a time.


@dataclass(frozen=True, eq=False)
class DenseRules:
    """A number for each rule in four blocks, by whether a part is a phrase or a word."""

    phrases: Float[Tensor, "a x y"]
    word_left: Float[Tensor, "a p y"]
    word_right: Float[Tensor, "a x p"]
    words: Float[Tensor, "a p p"]

    @classmethod
    def of(cls, grammar: GrammarWeights) -> DenseRules:
        """The weights of a full grammar."""
        n, s = grammar.shape.phrases, grammar.shape.symbols
        table = grammar.rules.view(n, s, s)
        return cls(table[:, :n, :n], table[:, n:, :n], table[:, :n, n:], table[:, n:, n:])

    def flat(self) -> Float[Tensor, " r"]:
        """The numbers in the order of rules."""
        right_phrase = torch.cat([self.phrases, self.word_left], dim=1)
        right_word = torch.cat([self.word_right, self.words], dim=1)
        return torch.cat([right_phrase, right_word], dim=2).flatten()


@dataclass(frozen=True, eq=False)
class WordMatrices:
    """What the rules become beside a word: from the other part to the parent."""

    left: Float[Tensor, "b n a y"]  # the word is the left part
    right: Float[Tensor, "b n a x"]  # the word is the right part

    @classmethod
    def of(cls, rules: DenseRules, words: Float[Tensor, "b n p"]) -> WordMatrices:
        """The matrices of all words."""
        a = len(rules.phrases)
        size = (*words.shape[:2], a, a)
        left = words @ rules.word_left.transpose(0, 1).flatten(1)
        right = words @ rules.word_right.permute(2, 0, 1).flatten(1)
        return cls(left.view(size), right.view(size))


def inside(words: Float[Tensor, "b n p"], rules: DenseRules, matrices: WordMatrices) -> SpanTable:
    """The summed weight of all parses of every span of two words or more, for every phrase."""
    b, n, p = words.shape
    table = SpanTable.empty(words, b, n, len(rules.phrases))
    if n > 1:
        pairs = words[:, :-1] @ rules.words.transpose(0, 1).flatten(1)
        value = apply(pairs.view(b, n - 1, -1, p), words[:, 1:])
        table.put(2, value, words.new_zeros(b, n - 1, dtype=torch.float64))
    to_parents = rules.phrases.flatten(1).t().contiguous()
    for width in range(3, n + 1):
        _join(table, width, to_parents, matrices)
    return table


def _join(
    table: SpanTable, width: int, to_parents: Float[Tensor, "xy a"], matrices: WordMatrices
) -> None:
    """Fill in the spans of a width from shorter ones."""
    n = table.length
    m = n - width + 1
    shorter, scale = table.at(width - 1)
    # Parts of 2 ... width - 2 words on the left, so of width - 2 ... 2 on the right.
    on_left, on_right = slice(2, width - 1), slice(n - width + 2, n - 1)
    splits = table.start_scale[:, :m, on_left] + table.end_scale[:, width:, on_right]
    top = largest_of(splits, scale[:, 1:], scale[:, :-1])
    after = shorter[:, 1:] * factor(scale[:, 1:], top, shorter.dtype).unsqueeze(-1)
    before = shorter[:, :-1] * factor(scale[:, :-1], top, shorter.dtype).unsqueeze(-1)
    value = apply(matrices.left[:, :m], after) + apply(matrices.right[:, width - 1 :], before)
    shares = factor(splits, top.unsqueeze(-1), shorter.dtype)
    left = table.by_start[:, :m, on_left] * shares.unsqueeze(-1)
    value += products(left, table.by_end[:, width:, on_right]) @ to_parents
    table.put(width, value, top)


def products(
    first: Float[Tensor, "b m k x"], second: Float[Tensor, "b m k y"]
) -> Float[Tensor, "b m xy"]:
    """All products of an entry of each, summed over k."""
    return (first.transpose(-1, -2) @ second).flatten(-2)


def apply(
    matrix: Float[Tensor, "b m x y"], vector: Float[Tensor, "b m y"]
) -> Float[Tensor, "b m x"]:
    """Each matrix times its vector."""
    return (matrix @ vector.unsqueeze(-1))[..., 0]


# The outside pass and expected counts where every rule has a weight.


def expected_counts(
    words: Float[Tensor, "b n p"],
    rules: DenseRules,
    inside: SpanTable,
    matrices: WordMatrices,
    root: Float[Tensor, "b a"],
    root_scale: Float[Tensor, " b"],
    weight: Float[Tensor, " b"],
) -> tuple[Float[Tensor, "b n p"], DenseRules]:
    """Counts of preterminals at each word, and of rules, for sentences of two words or more.

    `root` and its scale are the outside of whole sentences; sentence b counts `weight[b]` times.
    """
    n, a = words.shape[1], len(rules.phrases)
    outside = SpanTable.empty(words, len(words), n, a)
    outside.put(n, root.unsqueeze(1), root_scale.unsqueeze(1))
    descent = _Descent(words, matrices, inside, outside, weight.unsqueeze(1))
    # Rules as matrices from a parent and one part to the other part.
    to_left = rules.phrases.transpose(1, 2).flatten(0, 1)
    to_right = rules.phrases.flatten(0, 1)
    found = words.new_zeros(a, a * a)
    for width in range(n - 1, 1, -1):
        here, scale = inside.at(width)
        pairs = descent.to(width)
        value = descent.beside_words(width, pairs.top)
        value += pairs.left @ to_left + pairs.right @ to_right
        found += descent.count(here, scale, pairs.left, pairs.top)
        # Phrases that cannot stand here must not decide the scale.
        outside.put(width, torch.where(here > 0, value, 0.0), pairs.top)
    phrases = found.view(a, a, a).transpose(0, 1) * rules.phrases
    return _words(descent, rules, phrases)


def _words(
    descent: _Descent, rules: DenseRules, phrases: Float[Tensor, "a x y"]
) -> tuple[Float[Tensor, "b n p"], DenseRules]:
    """The last step down, to single words; `phrases` are the counts of rules above them."""
    words, pairs = descent.words, descent.to(1)
    a, p = len(phrases), words.shape[2]
    parent, scale = descent.outside.at(2)
    above_left = parent * factor(scale, pairs.top[:, :-1], words.dtype).unsqueeze(-1)
    above_right = parent * factor(scale, pairs.top[:, 1:], words.dtype).unsqueeze(-1)
    two = products(above_left.unsqueeze(2), words[:, 1:].unsqueeze(2))
    other_two = products(above_right.unsqueeze(2), words[:, :-1].unsqueeze(2))
    value = pairs.left @ rules.word_left.transpose(1, 2).flatten(0, 1)
    value += pairs.right @ rules.word_right.flatten(0, 1)
    value[:, :-1] += two @ rules.words.transpose(1, 2).flatten(0, 1)
    value[:, 1:] += other_two @ rules.words.flatten(0, 1)
    flat = torch.zeros_like(pairs.top)
    left = descent.count(words, flat, pairs.left, pairs.top).view(p, a, a)
    right = descent.count(words, flat, pairs.right, pairs.top).view(p, a, a)
    both = descent.count(words[:, :-1], flat[:, 1:], two, pairs.top[:, :-1]).view(p, a, p)
    counts = DenseRules(
        phrases,
        left.transpose(0, 1) * rules.word_left,
        right.permute(1, 2, 0) * rules.word_right,
        both.transpose(0, 1) * rules.words,
    )
    share = (bounded_exp(pairs.top, words.dtype) * descent.weight).unsqueeze(-1)
    return words * value * share, counts


class _Pairs(NamedTuple):
    """For spans of one width, products of outside of parents and inside of other parts."""

    left: Float[Tensor, "b m ay"]  # the span is the left part of its parent
    right: Float[Tensor, "b m ax"]  # the span is the right part of its parent
    top: Float[Tensor, "b m"]  # the scale of both


@dataclass(frozen=True, eq=False)
class _Descent:
    words: Float[Tensor, "b n p"]
    matrices: WordMatrices
    inside: SpanTable
    outside: SpanTable
    weight: Float[Tensor, "b 1"]

    def to(self, width: int) -> _Pairs:
        """Products for the spans of a width where the other part has two words or more."""
        inside, outside = self.inside, self.outside
        n = inside.length
        m = n - width + 1
        # Parents of width + 2 ... n words, and other parts of 2 ... n - width words: in step, and
        # in step the other way round where spans are kept by their ends.
        longer, other = slice(width + 2, n + 1), slice(2, m)
        longer_end, other_end = slice(0, max(m - 2, 0)), slice(width, n - 1)
        as_left = outside.start_scale[:, :m, longer] + inside.start_scale[:, width:, other]
        as_right = outside.end_scale[:, width:, longer_end] + inside.end_scale[:, :m, other_end]
        above = outside.at(width + 1)[1]
        edges = pad(above, (1, 0), value=-torch.inf), pad(above, (0, 1), value=-torch.inf)
        top = largest_of(as_left, as_right, *edges)
        shares = factor(as_left, top.unsqueeze(-1), self.words.dtype)
        parents = outside.by_start[:, :m, longer] * shares.unsqueeze(-1)
        left = products(parents, inside.by_start[:, width:, other])
        shares = factor(as_right, top.unsqueeze(-1), self.words.dtype)
        parents = outside.by_end[:, width:, longer_end] * shares.unsqueeze(-1)
        return _Pairs(left, products(parents, inside.by_end[:, :m, other_end]), top)

    def beside_words(self, width: int, top: Float[Tensor, "b m"]) -> Float[Tensor, "b m x"]:
        """The outside of spans of a width where the other part is one word."""
        parent, scale = self.outside.at(width + 1)
        ahead = parent * factor(scale, top[:, 1:], parent.dtype).unsqueeze(-1)
        behind = parent * factor(scale, top[:, :-1], parent.dtype).unsqueeze(-1)
        m = parent.shape[1]
        on_left = apply(self.matrices.left[:, :m].transpose(-1, -2), ahead)
        on_right = apply(self.matrices.right[:, width:].transpose(-1, -2), behind)
        return pad(on_left, (0, 0, 1, 0)) + pad(on_right, (0, 0, 0, 1))

    def count(
        self,
        here: Float[Tensor, "b m x"],
        scale: Float[Tensor, "b m"],
        pairs: Float[Tensor, "b m q"],
        top: Float[Tensor, "b m"],
    ) -> Float[Tensor, "x q"]:
        """Products of inside and pairs over all spans of a width, without the rules' weights."""
        share = here * (bounded_exp(scale + top, here.dtype) * self.weight).unsqueeze(-1)
        return share.flatten(0, 1).t() @ pairs.flatten(0, 1)
