"""The inside pass where few rules have a weight: products of listed pairs, one split at a time.

On a processor: tables as small as can be, and products that stay in its caches.  `inside_wide` is
its twin for GPUs.

Letters in shapes: b: sentences of length n; m: spans of one width, by first word; p: preterminals;
a: phrases; q: pairs of symbols that some rule asks for.  Symbols come first and sentences last, so
that picking a symbol copies one long row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules
from mrflearn.kernels.span_table import factor
from mrflearn.kernels.word_rows import WordRows


@dataclass(eq=False)
class SpanRows:
    """Scaled numbers for all spans by width w: value[w] * exp(scale[w])."""

    value: list[Float[Tensor, "a m b"]] = field(default_factory=list)
    scale: list[Float[Tensor, "m b"]] = field(default_factory=list)

    @classmethod
    def empty(cls, like: Tensor, length: int) -> SpanRows:
        """Room for every width up to a length."""
        return cls([like.new_zeros(0)] * (length + 1), [like.new_zeros(0)] * (length + 1))

    def put(self, width: int, value: Float[Tensor, "a m b"], scale: Float[Tensor, "m b"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it anew, in place."""
        largest = value.amax(dim=0)
        self.value[width] = value.div_(torch.where(largest > 0, largest, 1.0))
        self.scale[width] = scale + largest.log()


def inside(words: Float[Tensor, "p n b"], rules: ListedRules, rows: WordRows) -> SpanRows:
    """The summed weight of all parses of every span of two words or more, for every phrase."""
    n, b = words.shape[1:]
    table = SpanRows.empty(words, n)
    if n > 1:
        parts = rules.words.block.parts
        pairs = words[parts.first, :-1] * words[parts.second, 1:]
        nothing = words.new_zeros(rules.symbols, n - 1, b)
        scale = words.new_zeros(n - 1, b, dtype=torch.float64)
        table.put(2, add_sums(nothing, rules.words.to_parent, pairs), scale)
    for width in range(3, n + 1):
        _join(table, width, n - width + 1, rules, rows)
    return table


def _join(table: SpanRows, width: int, m: int, rules: ListedRules, rows: WordRows) -> None:
    """Fill in the spans of a width from shorter ones."""
    shorter, scale = table.value[width - 1], table.scale[width - 1]
    splits = [table.scale[k][:m] + table.scale[width - k][k : k + m] for k in range(2, width - 1)]
    top = largest(scale[1:], scale[:-1], *splits)
    parts = rules.phrases.block.parts
    pairs = shorter.new_zeros(len(parts), *top.shape)
    for k, split in zip(range(2, width - 1), splits, strict=True):
        left, right = table.value[k][:, :m], table.value[width - k][:, k : k + m]
        parts.add_products(pairs, left, right, factor(split, top, pairs.dtype))
    value = add_sums(shorter.new_zeros(rules.symbols, *top.shape), rules.phrases.to_parent, pairs)
    beside = rules.word_left.block.above_right
    after = (shorter[:, 1:] * factor(scale[1:], top, pairs.dtype)).index_select(0, beside.second)
    add_sums(value, rules.word_left.right_ends[0], after.mul_(rows.left[:, :m]))
    beside = rules.word_right.block.above_left
    before = (shorter[:, :-1] * factor(scale[:-1], top, pairs.dtype)).index_select(0, beside.second)
    add_sums(value, rules.word_right.left_ends[0], before.mul_(rows.right[:, width - 1 :]))
    table.put(width, value, top)


def largest(*scales: Float[Tensor, "m b"]) -> Float[Tensor, "m b"]:
    """The largest of several scales; 0 where there is none."""
    top = torch.stack(scales).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)
