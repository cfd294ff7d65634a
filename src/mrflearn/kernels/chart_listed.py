"""Inside and outside where rules are listed one by one.

Products are formed for the pairs of symbols that some rule asks for, and summed over splits before
rules are looked at.  How spans are kept, and splits summed, is the table's affair: `span_rows` on
processors, `span_slices` on GPUs.

Letters in shapes: b: sentences of length n; p: preterminals.

Outside numbers are divided by the sentence's sum, so that inside times outside is the probability
that a symbol stands over a span.

Letters in shapes: b: sentences of length n; m: spans of one width, by first word; p: preterminals;
a: phrases; q: pairs of symbols that some rule asks for; r: rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.rules import ListedRules, WeighedBlock, add_sums
from mrflearn.kernels.spans import SpanRows, SpanSlices, WordRows, bounded_exp, factor

# The inside pass where few rules have a weight, width by width.


Table = TypeVar("Table", SpanRows, SpanSlices)


def inside(
    words: Float[Tensor, "p n b"], rules: ListedRules, rows: WordRows, table: Table
) -> Table:
    """The summed weight of all parses of every span of two words or more, in the table."""
    n, b = words.shape[1:]
    parts = rules.words.block.parts
    pairs = words[parts.first, :-1] * words[parts.second, 1:]
    scale = words.new_zeros(n - 1, b, dtype=torch.float64)
    nothing = words.new_zeros(rules.symbols, n - 1, b)
    table.put(2, add_sums(nothing, rules.words.to_parent, pairs), scale)
    for width in range(3, n + 1):
        pairs, top = table.products(width, rules.phrases.block.parts)
        nothing = words.new_zeros(rules.symbols, *top.shape)
        value = add_sums(nothing, rules.phrases.to_parent, pairs)
        rows.add_inside(value, *table.at(width - 1), top)
        table.put(width, value, top)
    return table


# The outside pass and expected counts where few rules have a weight, width by falling width.


def expected_counts(
    words: Float[Tensor, "p n b"],
    rows: WordRows,
    inside: Table,
    root: Float[Tensor, "a b"],
    root_scale: Float[Tensor, " b"],
    weight: Float[Tensor, " b"],
) -> tuple[Float[Tensor, "p n b"], Float[Tensor, " r"]]:
    """Counts of preterminals at each word, and of rules, for sentences of two words or more.

    `root` and its scale are the outside of whole sentences; sentence b counts `weight[b]` times.
    """
    n, outside = words.shape[1], inside.blank()
    outside.put(n, root.unsqueeze(1).clone(), root_scale.unsqueeze(0))
    counts = words.new_zeros(rows.rules.rules)
    descent = _Descent(words, rows, inside, outside, weight, counts)
    for width in range(n - 1, 1, -1):
        # Phrases that cannot stand here must not decide the scale.
        value, top = descent.to_phrases(width)
        outside.put(width, torch.where(inside.at(width)[0] > 0, value, 0.0), top)
    value, top = descent.to_words()
    return words * value * (bounded_exp(top, words.dtype) * weight), counts


@dataclass(frozen=True, eq=False)
class _Descent(Generic[Table]):
    """One step down at a time: from spans that are done to the parts they may have."""

    words: Float[Tensor, "p n b"]
    rows: WordRows
    inside: Table
    outside: Table
    weight: Float[Tensor, " b"]
    counts: Float[Tensor, " r"]

    @property
    def rules(self) -> ListedRules:
        return self.rows.rules

    def to_phrases(self, width: int) -> tuple[Float[Tensor, "a m b"], Float[Tensor, "m b"]]:
        """The outside of spans of a width, and its scale."""
        parents, rules = self.inside.parents(self.outside, width), self.rules.phrases
        here, scale = self.inside.at(width)
        value, top = torch.zeros_like(here), parents.top
        pairs = parents.as_left(rules.block.above_right)
        add_sums(value, rules.to_left, pairs)
        own = here * (bounded_exp(scale + top, here.dtype) * self.weight)
        self._count_left(rules, own, pairs)
        add_sums(value, rules.to_right, parents.as_right(rules.block.above_left))
        self.rows.add_outside(value, *self.outside.at(width + 1), top)
        return value, top

    def to_words(self) -> tuple[Float[Tensor, "p n b"], Float[Tensor, "n b"]]:
        """The outside of single words, and its scale."""
        parents, rules, words = self.inside.parents(self.outside, 1), self.rules, self.words
        value, top = torch.zeros_like(words), parents.top
        own = words * (bounded_exp(top, words.dtype) * self.weight)
        pairs = parents.as_left(rules.word_left.block.above_right)
        add_sums(value, rules.word_left.to_left, pairs)
        self._count_left(rules.word_left, own, pairs)
        pairs = parents.as_right(rules.word_right.block.above_left)
        add_sums(value, rules.word_right.to_right, pairs)
        self._count_right(rules.word_right, own, pairs)
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
        value[:, :-1] += add_sums(torch.zeros_like(words[:, 1:]), rules.to_left, found)
        self._count_left(rules, own[:, :-1], found)
        pairs = rules.block.above_left
        above = (parent * factor(scale, top[1:], words.dtype)).index_select(0, pairs.first)
        found = above.mul_(words[pairs.second, :-1])
        value[:, 1:] += add_sums(torch.zeros_like(words[:, 1:]), rules.to_right, found)

    def _count_left(self, rules: WeighedBlock, own: Tensor, pairs: Tensor) -> None:
        """Count the rules of which spans are the left part, the rest being in pairs."""
        self._count(rules, own, rules.block.left, pairs, rules.block.above_right.of_rule)

    def _count_right(self, rules: WeighedBlock, own: Tensor, pairs: Tensor) -> None:
        """Count the rules of which spans are the right part, the rest being in pairs."""
        self._count(rules, own, rules.block.right, pairs, rules.block.above_left.of_rule)

    def _count(
        self,
        rules: WeighedBlock,
        own: Float[Tensor, "x m b"],
        symbol: Int[Tensor, " r"],
        pairs: Float[Tensor, "q m b"],
        pair: Int[Tensor, " r"],
    ) -> None:
        found = own.index_select(0, symbol).mul_(pairs.index_select(0, pair)).sum(dim=(1, 2))
        self.counts[rules.block.rule] += found * rules.weight
