"""The outside pass and expected counts where few rules have a weight: for GPUs.

Letters in shapes as in `inside_wide`.  Outside numbers are divided by the sentence's sum, so that
inside times outside is the probability that a symbol stands over a span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules, WeighedBlock
from mrflearn.kernels.span_slices import SpanSlices, largest_of, split_groups
from mrflearn.kernels.span_table import bounded_exp, factor
from mrflearn.kernels.word_rows import WordRows


def expected_counts(
    words: Float[Tensor, "p n b"],
    rules: ListedRules,
    inside: SpanSlices,
    rows: WordRows,
    root: Float[Tensor, "a b"],
    root_scale: Float[Tensor, "b"],
    weight: Float[Tensor, "b"],
) -> tuple[Float[Tensor, "p n b"], Float[Tensor, "r"]]:
    """Counts of preterminals at each word, and of rules, for sentences of two words or more.

    `root` and its scale are the outside of whole sentences; sentence b counts `weight[b]` times.
    """
    n = words.shape[1]
    outside = SpanSlices.empty(words, rules.symbols)
    outside.put(n, root.unsqueeze(1), root_scale.unsqueeze(0))
    counts = words.new_zeros(rules.rules)
    descent = _Descent(words, rules, rows, inside, outside, weight, counts)
    for width in range(n - 1, 1, -1):
        # Phrases that cannot stand here must not decide the scale.
        value, top = descent.to_phrases(width)
        outside.put(width, torch.where(inside.at(width)[0] > 0, value, 0.0), top)
    value, top = descent.to_words()
    return words * value * (bounded_exp(top, words.dtype) * weight), counts


class _Splits(NamedTuple):
    """For spans of one width, all parents with another part of two words or more."""

    left: Float[Tensor, "m k b"]  # factors where the span is the left part, by the other's width
    right: Float[Tensor, "m k b"]  # where it is the right part, by the other's falling width
    top: Float[Tensor, "m b"]  # the scale of everything that is summed for a span


@dataclass(frozen=True, eq=False)
class _Descent:
    """One step down at a time: from spans that are done to the parts they may have."""

    words: Float[Tensor, "p n b"]
    rules: ListedRules
    rows: WordRows
    inside: SpanSlices
    outside: SpanSlices
    weight: Float[Tensor, "b"]
    counts: Float[Tensor, "r"]

    def to_phrases(self, width: int) -> tuple[Float[Tensor, "a m b"], Float[Tensor, "m b"]]:
        """The outside of spans of a width, and its scale."""
        splits, rules = self._splits(width), self.rules
        here, scale = self.inside.at(width)
        value = torch.zeros_like(here)
        pairs = self._as_left(rules.phrases, width, splits)
        add_sums(value, rules.phrases.to_left, pairs)
        own = here * (bounded_exp(scale + splits.top, here.dtype) * self.weight)
        self._count(rules.phrases, own, rules.phrases.block.left, pairs)
        add_sums(value, rules.phrases.to_right, self._as_right(rules.phrases, width, splits))
        self._beside_words(value, width, splits.top)
        return value, splits.top

    def to_words(self) -> tuple[Float[Tensor, "p n b"], Float[Tensor, "n b"]]:
        """The outside of single words, and its scale."""
        splits, rules, words = self._splits(1), self.rules, self.words
        value, top = torch.zeros_like(words), splits.top
        own = words * (bounded_exp(top, words.dtype) * self.weight)
        pairs = self._as_left(rules.word_left, 1, splits)
        add_sums(value, rules.word_left.to_left, pairs)
        self._count(rules.word_left, own, rules.word_left.block.left, pairs)
        pairs = self._as_right(rules.word_right, 1, splits)
        add_sums(value, rules.word_right.to_right, pairs)
        self._count(rules.word_right, own, rules.word_right.block.right, pairs)
        self._two_words(value, own, top)
        return value, top

    def _two_words(
        self, value: Float[Tensor, "p n b"], own: Float[Tensor, "p n b"], top: Float[Tensor, "n b"]
    ) -> None:
        """Add what words get from parents of two words, and count their rules."""
        rules, words = self.rules.words, self.words
        parent, scale = self.outside.at(2)
        pairs = rules.block.above_right
        above = (parent * factor(scale, top[:-1], words.dtype)).index_select(0, pairs.first)
        found = above.mul_(words[pairs.second, 1:])
        value[:, :-1] = add_sums(value[:, :-1].clone(), rules.to_left, found)
        self._count(rules, own[:, :-1], rules.block.left, found)
        pairs = rules.block.above_left
        above = (parent * factor(scale, top[1:], words.dtype)).index_select(0, pairs.first)
        found = above.mul_(words[pairs.second, :-1])
        value[:, 1:] = add_sums(value[:, 1:].clone(), rules.to_right, found)

    def _splits(self, width: int) -> _Splits:
        """The factors of all parents and other parts for the spans of a width."""
        inside, outside, n = self.inside, self.outside, self.inside.length
        m = n - width + 1
        # In step: parents of width + 2 ... n words and other parts of 2 ... n - width words; and
        # in step the other way round where spans are kept by their ends.
        as_left = outside.start_scale[:m, width + 2 :] + inside.start_scale[width:, 2:m]
        as_right = outside.end_scale[width:, : max(m - 2, 0)] + inside.end_scale[:m, width : n - 1]
        above = outside.at(width + 1)[1]
        edges = (pad(above, (0, 0, *side), value=-torch.inf) for side in ((1, 0), (0, 1)))
        top = largest_of(as_left, as_right, *edges)
        kind, under = self.words.dtype, top.unsqueeze(1)
        return _Splits(factor(as_left, under, kind), factor(as_right, under, kind), top)

    def _as_left(self, rules: WeighedBlock, width: int, splits: _Splits) -> Float[Tensor, "q m b"]:
        """Parents times right parts of two words or more, for spans that are the left part."""
        pairs, m = rules.block.above_right, len(splits.top)
        total = self.words.new_zeros(len(pairs), *splits.top.shape)
        parents = self.outside.by_start[:, :m, width + 2 :]
        others = self.inside.by_start[:, width:, 2:m]
        for i, j in split_groups(m - 2, total.numel()):
            left = m - 2 - i  # spans further right have no room for another part of so many words
            total[:, :left] += pairs.products(
                parents[:, :left, i:j], others[:, :left, i:j], splits.left[:left, i:j]
            )
        return total

    def _as_right(self, rules: WeighedBlock, width: int, splits: _Splits) -> Float[Tensor, "q m b"]:
        """Parents times left parts of two words or more, for spans that are the right part."""
        pairs, m, n = rules.block.above_left, len(splits.top), self.inside.length
        total = self.words.new_zeros(len(pairs), *splits.top.shape)
        parents = self.outside.by_end[:, width:, : max(m - 2, 0)]
        others = self.inside.by_end[:, :m, width : n - 1]
        for i, j in split_groups(m - 2, total.numel()):
            skip = m - j  # spans further left have no room for another part of so many words
            total[:, skip:] += pairs.products(
                parents[:, skip:, i:j], others[:, skip:, i:j], splits.right[skip:, i:j]
            )
        return total

    def _beside_words(
        self, value: Float[Tensor, "a m b"], width: int, top: Float[Tensor, "m b"]
    ) -> None:
        """Add what spans of a width get where the other part is one word."""
        parent, scale = self.outside.at(width + 1)
        left, right = self.rules.word_left, self.rules.word_right
        above = parent * factor(scale, top[1:], parent.dtype)
        found = above.index_select(0, left.block.above_right.first)
        found.mul_(self.rows.left[:, : len(scale)])
        value[:, 1:] += add_sums(torch.zeros_like(parent), left.right_ends[1], found)
        above = parent * factor(scale, top[:-1], parent.dtype)
        found = above.index_select(0, right.block.above_left.first)
        found.mul_(self.rows.right[:, width:])
        value[:, :-1] += add_sums(torch.zeros_like(parent), right.left_ends[1], found)

    def _count(
        self,
        rules: WeighedBlock,
        own: Float[Tensor, "x m b"],
        symbol: Int[Tensor, "r"],
        pairs: Float[Tensor, "q m b"],
    ) -> None:
        """Count the rules of which spans are a part: `symbol` themselves, the rest in pairs."""
        of_rule = rules.block.above_right.of_rule
        if symbol is rules.block.right:
            of_rule = rules.block.above_left.of_rule
        found = own.index_select(0, symbol).mul_(pairs.index_select(0, of_rule)).sum(dim=(1, 2))
        self.counts[rules.block.rule] += found * rules.weight
