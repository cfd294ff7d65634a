"""The inside pass where every rule has a weight: products of matrices, one width at a time.

Letters in shapes: b: sentences of length n; m: spans of one width; k: split points; p:
preterminals; a, x, y: phrases (parent, left and right part).
A part of one word is a preterminal and a longer one a phrase.  So a word beside a phrase turns the
rules into a matrix that depends on the word's place only, and only splits with phrases on both
sides are summed span by span: first over the splits, then over the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.inside_input import GrammarWeights
from mrflearn.kernels.span_table import SpanTable, factor, largest_of


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

    def flat(self) -> Float[Tensor, "r"]:
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
