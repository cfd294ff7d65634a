"""Charts of sentences of one length, two words or more: one shape of answer, three ways to it.

Letters in shapes: b: sentences of length n; p: preterminals; a: phrases; r: rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels import (
    inside_dense,
    inside_sparse,
    inside_wide,
    outside_dense,
    outside_sparse,
    outside_wide,
)
from mrflearn.kernels.inside_dense import DenseRules, WordMatrices
from mrflearn.kernels.inside_input import GrammarWeights
from mrflearn.kernels.inside_sparse import SpanRows
from mrflearn.kernels.rule_weights import ListedRules
from mrflearn.kernels.span_slices import SpanSlices
from mrflearn.kernels.span_table import SpanTable
from mrflearn.kernels.word_rows import WordRows


@dataclass(frozen=True, eq=False)
class DenseChart:
    """A chart for a grammar with every rule."""

    words: Float[Tensor, "b n p"]
    rules: DenseRules
    matrices: WordMatrices
    inside: SpanTable

    @classmethod
    def of(cls, words: Float[Tensor, "b n p"], grammar: GrammarWeights) -> DenseChart:
        """The inside of all spans."""
        rules = DenseRules.of(grammar)
        matrices = WordMatrices.of(rules, words)
        return cls(words, rules, matrices, inside_dense.inside(words, rules, matrices))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, "b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.words.shape[1])
        return value[:, 0], scale[:, 0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        return (self.inside.by_start.log() + self.inside.start_scale.unsqueeze(-1)).movedim(-1, 0)

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, "b"], weight: Float[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, "r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_dense.expected_counts(
            self.words, self.rules, self.inside, self.matrices, root, scale, weight
        )
        return words, rules.flat()


@dataclass(frozen=True, eq=False)
class SparseChart:
    """A chart for a grammar given by a list of rules."""

    words: Float[Tensor, "p n b"]
    rules: ListedRules
    rows: WordRows
    inside: SpanRows

    @classmethod
    def of(cls, words: Float[Tensor, "b n p"], grammar: GrammarWeights) -> SparseChart:
        """The inside of all spans."""
        rules, turned = grammar.listed, words.permute(2, 1, 0).contiguous()
        rows = WordRows.of(rules, turned)
        return cls(turned, rules, rows, inside_sparse.inside(turned, rules, rows))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, "b"]]:
        """The inside of whole sentences, and its scale."""
        return self.inside.value[-1][:, 0].t(), self.inside.scale[-1][0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        n, b = self.words.shape[1:]
        size = (self.rules.symbols, b, n + 1, n + 1)
        table = self.words.new_full(size, -torch.inf, dtype=torch.float64)
        for width in range(2, n + 1):
            value = self.inside.value[width].log() + self.inside.scale[width]
            table[:, :, : n - width + 1, width] = value.transpose(1, 2)
        return table

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, "b"], weight: Float[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, "r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_sparse.expected_counts(
            self.words, self.rules, self.inside, self.rows, root.t(), scale, weight
        )
        return words.permute(2, 1, 0), rules


@dataclass(frozen=True, eq=False)
class WideChart:
    """A chart for a grammar given by a list of rules, on a GPU."""

    words: Float[Tensor, "p n b"]
    rules: ListedRules
    rows: WordRows
    inside: SpanSlices

    @classmethod
    def of(cls, words: Float[Tensor, "b n p"], grammar: GrammarWeights) -> WideChart:
        """The inside of all spans."""
        rules, turned = grammar.listed, words.permute(2, 1, 0).contiguous()
        rows = WordRows.of(rules, turned)
        return cls(turned, rules, rows, inside_wide.inside(turned, rules, rows))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, "b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.words.shape[1])
        return value[:, 0].t(), scale[0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        return (self.inside.by_start.log() + self.inside.start_scale).movedim(-1, 1)

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, "b"], weight: Float[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, "r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_wide.expected_counts(
            self.words, self.rules, self.inside, self.rows, root.t(), scale, weight
        )
        return words.permute(2, 1, 0), rules
