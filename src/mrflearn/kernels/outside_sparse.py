"""The outside pass and expected counts where few rules have a weight.

Letters in shapes as in `inside_sparse`.  Outside numbers are divided by the sentence's sum, so that
inside times outside is the probability that a symbol stands over a span.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.inside_sparse import SpanRows, largest
from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules, WeighedBlock
from mrflearn.kernels.span_table import bounded_exp, factor
from mrflearn.kernels.word_rows import WordRows


def expected_counts(
    words: Float[Tensor, "p n b"],
    rules: ListedRules,
    inside: SpanRows,
    rows: WordRows,
    root: Float[Tensor, "a b"],
    root_scale: Float[Tensor, "b"],
    weight: Float[Tensor, "b"],
) -> tuple[Float[Tensor, "p n b"], Float[Tensor, "r"]]:
    """Counts of preterminals at each word, and of rules, for sentences of two words or more.

    `root` and its scale are the outside of whole sentences; sentence b counts `weight[b]` times.
    """
    n = words.shape[1]
    inside.value[1], inside.scale[1] = words, torch.zeros_like(words[0], dtype=torch.float64)
    outside = SpanRows.empty(words, n)
    outside.put(n, root.unsqueeze(1).clone(), root_scale.unsqueeze(0))
    descent = _Descent(rules, rows, inside, outside, weight, words.new_zeros(rules.rules))
    for width in range(n - 1, 1, -1):
        # Phrases that cannot stand here must not decide the scale.
        value, top = descent.to_phrases(width)
        outside.put(width, torch.where(inside.value[width] > 0, value, 0.0), top)
    value, top = descent.to_words()
    return words * value * (bounded_exp(top, words.dtype) * weight), descent.counts


class _Part(NamedTuple):
    """Sums over parents and other parts, for each pair of symbols these can be."""

    rules: WeighedBlock
    matrix: Tensor  # from pairs to the symbols of the spans themselves
    symbol: Int[Tensor, "r"]  # each rule's symbol for the span itself
    pair: Int[Tensor, "r"]  # each rule's pair
    total: Float[Tensor, "q m b"]


@dataclass(frozen=True, eq=False)
class _Descent:
    """One step down at a time: from spans that are done to the parts they may have."""

    rules: ListedRules
    rows: WordRows
    inside: SpanRows
    outside: SpanRows
    weight: Float[Tensor, "b"]
    counts: Float[Tensor, "r"]

    def to_phrases(self, width: int) -> tuple[Float[Tensor, "a m b"], Float[Tensor, "m b"]]:
        """The outside of spans of a width, and its scale."""
        top, rules = self._top(width), self.rules
        longer = range(2, len(top))
        value = torch.zeros_like(self.inside.value[width])
        left = self._as_left(rules.phrases, width, longer, top)
        self._add(value, left)
        self._count(left, width, top)
        self._add(value, self._as_right(rules.phrases, width, longer, top))
        parent, scale = self.outside.value[width + 1], self.outside.scale[width + 1]
        scaled = parent * factor(scale, top[1:], parent.dtype)
        found = scaled.index_select(0, rules.word_left.block.above_right.first)
        found.mul_(self.rows.left[:, : len(scale)])
        value[:, 1:] += add_sums(torch.zeros_like(parent), rules.word_left.right_ends[1], found)
        scaled = parent * factor(scale, top[:-1], parent.dtype)
        found = scaled.index_select(0, rules.word_right.block.above_left.first)
        found.mul_(self.rows.right[:, width:])
        value[:, :-1] += add_sums(torch.zeros_like(parent), rules.word_right.left_ends[1], found)
        return value, top

    def to_words(self) -> tuple[Float[Tensor, "p n b"], Float[Tensor, "n b"]]:
        """The outside of single words, and its scale."""
        top, rules = self._top(1), self.rules
        longer = range(2, len(top))
        value = torch.zeros_like(self.inside.value[1])
        for part in (
            self._as_left(rules.word_left, 1, longer, top),
            self._as_right(rules.word_right, 1, longer, top),
            self._as_left(rules.words, 1, [1], top),
        ):
            self._add(value, part)
            self._count(part, 1, top)
        self._add(value, self._as_right(rules.words, 1, [1], top))
        return value, top

    def _top(self, width: int) -> Float[Tensor, "m b"]:
        """The largest scale of anything that is summed for the spans of a width."""
        outside, inside = self.outside.scale, self.inside.scale
        m = len(inside[width])
        none = inside[width].new_full((m, inside[width].shape[1]), -torch.inf)
        scales = []
        for other in range(1, m):  # words of the other part; parents begin at m - other places
            edge = none[:other]
            scales.append(torch.cat([outside[width + other] + inside[other][width:], edge]))
            before = inside[other][: m - other]
            scales.append(torch.cat([edge, outside[width + other] + before]))
        return largest(*scales)

    def _as_left(
        self, rules: WeighedBlock, width: int, others: Iterable[int], top: Float[Tensor, "m b"]
    ) -> _Part:
        """What spans get as left parts beside parts of some lengths."""
        pairs = rules.block.above_right
        total = self.weight.new_zeros(len(pairs), *top.shape)
        for other in others:
            m = len(top) - other
            after, scale = self.inside.value[other], self.inside.scale[other]
            parent, above = self.outside.value[width + other], self.outside.scale[width + other]
            share = factor(above + scale[width:], top[:m], parent.dtype)
            pairs.add_products(total[:, :m], parent, after[:, width:], share)
        return _Part(rules, rules.to_left, rules.block.left, pairs.of_rule, total)

    def _as_right(
        self, rules: WeighedBlock, width: int, others: Iterable[int], top: Float[Tensor, "m b"]
    ) -> _Part:
        """What spans get as right parts beside parts of some lengths."""
        pairs = rules.block.above_left
        total = self.weight.new_zeros(len(pairs), *top.shape)
        for other in others:
            m = len(top) - other
            before, scale = self.inside.value[other][:, :m], self.inside.scale[other][:m]
            parent, above = self.outside.value[width + other], self.outside.scale[width + other]
            share = factor(above + scale, top[other:], parent.dtype)
            pairs.add_products(total[:, other:], parent, before, share)
        return _Part(rules, rules.to_right, rules.block.right, pairs.of_rule, total)

    def _add(self, value: Float[Tensor, "x m b"], part: _Part) -> None:
        add_sums(value, part.matrix, part.total)

    def _count(self, part: _Part, width: int, top: Float[Tensor, "m b"]) -> None:
        """Counts the rules of which spans of a width are a part."""
        dtype = part.total.dtype
        share = bounded_exp(self.inside.scale[width] + top, dtype) * self.weight
        here = (self.inside.value[width] * share).index_select(0, part.symbol)
        found = here.mul_(part.total.index_select(0, part.pair)).sum(dim=(1, 2))
        self.counts[part.rules.block.rule] += found * part.rules.weight
