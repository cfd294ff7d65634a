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

from mrflearn.kernels.inside_input import GrammarWeights
from mrflearn.kernels.rule_blocks import Block, RuleBlocks, weighted_sum
from mrflearn.kernels.span_table import factor


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


@dataclass(frozen=True, eq=False)
class SparseRules:
    """The rules in blocks, and their weights."""

    phrases: int
    blocks: RuleBlocks
    weight: Float[Tensor, "r"]

    @classmethod
    def of(cls, grammar: GrammarWeights) -> SparseRules:
        """The rules of a grammar."""
        return cls(grammar.shape.phrases, grammar.shape.blocks, grammar.rules)

    def weights(self, block: Block) -> Float[Tensor, "r"]:
        """The weights of a block's rules."""
        return self.weight[block.rule]


@dataclass(frozen=True, eq=False)
class WordRows:
    """What the rules become beside a word: a number for each parent and other part."""

    left: Float[Tensor, "q n b"]  # the word is the left part
    right: Float[Tensor, "q n b"]  # the word is the right part

    @classmethod
    def of(cls, rules: SparseRules, words: Float[Tensor, "p n b"]) -> WordRows:
        """The numbers of all words."""
        left, right = rules.blocks.word_left, rules.blocks.word_right
        return cls(
            weighted_sum(words, left.left, rules.weights(left), left.above_right.of_rule,
                         len(left.above_right)),
            weighted_sum(words, right.right, rules.weights(right), right.above_left.of_rule,
                         len(right.above_left)),
        )  # fmt: skip


def inside(words: Float[Tensor, "p n b"], rules: SparseRules, rows: WordRows) -> SpanRows:
    """The summed weight of all parses of every span of two words or more, for every phrase."""
    n, b = words.shape[1:]
    table = SpanRows.empty(words, n)
    if n > 1:
        block = rules.blocks.words
        pairs = words.new_zeros(len(block.parts), n - 1, b)
        block.parts.add_products(pairs, words[:, :-1], words[:, 1:], words.new_ones(n - 1, b))
        scale = words.new_zeros(n - 1, b, dtype=torch.float64)
        table.put(2, _to_parents(pairs, block, rules), scale)
    for width in range(3, n + 1):
        _join(table, width, n - width + 1, rules, rows)
    return table


def _join(table: SpanRows, width: int, m: int, rules: SparseRules, rows: WordRows) -> None:
    """Fill in the spans of a width from shorter ones."""
    shorter, scale = table.value[width - 1], table.scale[width - 1]
    splits = [table.scale[k][:m] + table.scale[width - k][k : k + m] for k in range(2, width - 1)]
    top = largest(scale[1:], scale[:-1], *splits)
    block = rules.blocks.phrases
    pairs = shorter.new_zeros(len(block.parts), *top.shape)
    for k, split in zip(range(2, width - 1), splits, strict=True):
        left, right = table.value[k][:, :m], table.value[width - k][:, k : k + m]
        block.parts.add_products(pairs, left, right, factor(split, top, pairs.dtype))
    value = _to_parents(pairs, block, rules)
    beside = rules.blocks.word_left.above_right
    after = (shorter[:, 1:] * factor(scale[1:], top, pairs.dtype)).index_select(0, beside.second)
    value.index_add_(0, beside.first, after.mul_(rows.left[:, :m]))
    beside = rules.blocks.word_right.above_left
    before = (shorter[:, :-1] * factor(scale[:-1], top, pairs.dtype)).index_select(0, beside.second)
    value.index_add_(0, beside.first, before.mul_(rows.right[:, width - 1 :]))
    table.put(width, value, top)


def largest(*scales: Float[Tensor, "m b"]) -> Float[Tensor, "m b"]:
    """The largest of several scales; 0 where there is none."""
    top = torch.stack(scales).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)


def _to_parents(pairs: Float[Tensor, "q m b"], block: Block, rules: SparseRules) -> Tensor:
    weight = rules.weights(block)
    return weighted_sum(pairs, block.parts.of_rule, weight, block.parent, rules.phrases)
