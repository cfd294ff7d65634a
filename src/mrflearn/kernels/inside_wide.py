"""The inside pass where few rules have a weight, all splits of a width at once: for GPUs.

A GPU waits for its next operation most of the time if each has one split of one width to do.
`inside_sparse` is the twin for processors, which lack the memory traffic for such tables.

Letters in shapes: b: sentences of length n; m: spans of one width, by first word; k: splits; p:
preterminals; a: phrases; q: pairs of symbols that some rule asks for.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules
from mrflearn.kernels.span_slices import SpanSlices, largest_of, split_groups
from mrflearn.kernels.span_table import factor
from mrflearn.kernels.word_rows import WordRows


def inside(words: Float[Tensor, "p n b"], rules: ListedRules, rows: WordRows) -> SpanSlices:
    """The summed weight of all parses of every span of two words or more, for every phrase."""
    n, b = words.shape[1:]
    table = SpanSlices.empty(words, rules.symbols)
    if n > 1:
        pairs = rules.words.block.parts
        value = words[pairs.first, :-1] * words[pairs.second, 1:]
        nothing = words.new_zeros(rules.symbols, n - 1, b)
        scale = words.new_zeros(n - 1, b, dtype=torch.float64)
        table.put(2, add_sums(nothing, rules.words.to_parent, value), scale)
    for width in range(3, n + 1):
        _join(table, width, rules, rows)
    return table


def _join(table: SpanSlices, width: int, rules: ListedRules, rows: WordRows) -> None:
    """Fill in the spans of a width from shorter ones."""
    n = table.length
    m = n - width + 1
    shorter, scale = table.at(width - 1)
    # Parts of 2 ... width - 2 words on the left, so of width - 2 ... 2 on the right.
    on_left, on_right = slice(2, width - 1), slice(n - width + 2, n - 1)
    splits = table.start_scale[:m, on_left] + table.end_scale[width:, on_right]
    top = largest_of(splits, scale[1:], scale[:-1])
    shares = factor(splits, top.unsqueeze(1), shorter.dtype)
    left, right = table.by_start[:, :m, on_left], table.by_end[:, width:, on_right]
    block = rules.phrases.block.parts
    pairs = shorter.new_zeros(len(block), *top.shape)
    for i, j in split_groups(width - 3, pairs.numel()):
        pairs += block.products(left[:, :, i:j], right[:, :, i:j], shares[:, i:j])
    value = add_sums(shorter.new_zeros(rules.symbols, *top.shape), rules.phrases.to_parent, pairs)
    _beside_words(value, table, width, top, rules, rows)
    table.put(width, value, top)


def _beside_words(
    value: Float[Tensor, "a m b"],
    table: SpanSlices,
    width: int,
    top: Float[Tensor, "m b"],
    rules: ListedRules,
    rows: WordRows,
) -> None:
    """Add what spans of a width are worth with one word split off, on the left or the right."""
    shorter, scale = table.at(width - 1)
    other = rules.word_left.block.above_right.second
    after = (shorter[:, 1:] * factor(scale[1:], top, shorter.dtype)).index_select(0, other)
    add_sums(value, rules.word_left.right_ends[0], after.mul_(rows.left[:, : len(top)]))
    other = rules.word_right.block.above_left.second
    before = (shorter[:, :-1] * factor(scale[:-1], top, shorter.dtype)).index_select(0, other)
    add_sums(value, rules.word_right.left_ends[0], before.mul_(rows.right[:, width - 1 :]))
