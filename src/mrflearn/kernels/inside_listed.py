"""The inside pass where few rules have a weight, width by width.

Products are formed for the pairs of symbols that some rule asks for, and summed over splits before
rules are looked at.  How spans are kept, and splits summed, is the table's affair: `span_rows` on
processors, `span_slices` on GPUs.

Letters in shapes: b: sentences of length n; p: preterminals.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules
from mrflearn.kernels.span_rows import SpanRows
from mrflearn.kernels.span_slices import SpanSlices
from mrflearn.kernels.word_rows import WordRows

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
