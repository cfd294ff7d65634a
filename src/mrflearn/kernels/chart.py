"""Charts of sentences of one length, two words or more: one shape of answer, two kinds of grammar.

Letters in shapes: b: sentences of length n; p: preterminals; a: phrases; r: rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels import inside_dense, inside_listed, outside_dense, outside_listed
from mrflearn.kernels.inside_dense import DenseRules, WordMatrices
from mrflearn.kernels.inside_input import GrammarWeights
from mrflearn.kernels.inside_listed import Table
from mrflearn.kernels.span_rows import SpanRows
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
class ListedChart(Generic[Table]):
    """A chart for a grammar given by a list of rules; its spans are kept as suits the device."""

    words: Float[Tensor, "p n b"]
    rows: WordRows
    inside: Table

    @staticmethod
    def of(
        words: Float[Tensor, "b n p"], grammar: GrammarWeights, *, wide: bool | None = None
    ) -> ListedChart[SpanRows] | ListedChart[SpanSlices]:
        """The inside of all spans; `wide`: all splits of a width at once, by default on a GPU."""
        rules, turned = grammar.listed, words.permute(2, 1, 0).contiguous()
        rows = WordRows.of(rules, turned)
        if words.is_cuda if wide is None else wide:
            table = SpanSlices.empty(turned, rules.symbols)
            return ListedChart(turned, rows, inside_listed.inside(turned, rules, rows, table))
        narrow = SpanRows.empty(turned.shape[1])
        return ListedChart(turned, rows, inside_listed.inside(turned, rules, rows, narrow))

    def top(self) -> tuple[Float[Tensor, "b a"], Float[Tensor, "b"]]:
        """The inside of whole sentences, and its scale."""
        value, scale = self.inside.at(self.words.shape[1])
        return value[:, 0].t(), scale[0]

    def log_inside(self) -> Float[Tensor, "a b n+1 n+1"]:
        """The logarithm of the inside of each phrase, by first word and width."""
        return self.inside.logarithm()

    def expected_counts(
        self, root: Float[Tensor, "b a"], scale: Float[Tensor, "b"], weight: Float[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b n p"], Float[Tensor, "r"]]:
        """Counts of preterminals and rules; `root` is the outside of whole sentences."""
        words, rules = outside_listed.expected_counts(
            self.words, self.rows, self.inside, root.t(), scale, weight
        )
        return words.permute(2, 1, 0), rules
