"""Potentials of the trigram field: low-rank pair scores, and sparse scores of what was seen.

    score(x, y, z) = unary(z) + near(y, z) + far(x, z) + triple(x, y, z)
    near = A1 R1^T + B,   far = A2 R2^T + F;   B, F and the triples are sparse

of every three positions in a row of a ring of text.  Sentences have two separators S between them,
and that is certain: x S z is impossible unless one of x and z is S too, and so is S S S.  The
second separator follows the first of itself: x S S has the score 0.
Letters in shapes: c: words; d: dimensions; p: sparse scores; n: windows of two words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.lifted import WordPotentials

OFFSETS = 2
AT_A_TIME = 1 << 16  # triples whose vectors are held at once


class SparseScores(NamedTuple):
    """Scores of some pairs or triples of words, by rising codes in base c; all others have 0."""

    codes: Int[Tensor, " p"]
    weights: Float[Tensor, " p"]

    @classmethod
    def of(cls, codes: Int[Tensor, " p"], weights: Float[Tensor, " p"]) -> SparseScores:
        """From codes in any order."""
        order = codes.argsort()
        return cls(codes[order], weights[order])

    def at(self, codes: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        """The scores of these codes."""
        if not len(self.codes):
            return self.weights.new_zeros(codes.shape)
        place = torch.searchsorted(self.codes, codes).clamp_max(len(self.codes) - 1)
        return self.weights[place] * (self.codes[place] == codes)

    def add_to(self, rows: Float[Tensor, "n c"], prefixes: Int[Tensor, " n"]) -> None:
        """Adds to each row the scores of the codes that begin with its prefix."""
        size = rows.shape[1]
        first = torch.searchsorted(self.codes, prefixes * size)
        count = torch.searchsorted(self.codes, (prefixes + 1) * size) - first
        row = torch.arange(len(rows), device=rows.device).repeat_interleave(count)
        shift = first - count.cumsum(0) + count
        place = torch.arange(len(row), device=rows.device) + shift[row]
        column = self.codes[place] - prefixes[row] * size
        rows[row, column] += self.weights[place]


class PairScores(NamedTuple):
    """Scores of pairs of words: a product of vectors, and scores of single pairs."""

    left: Float[Tensor, "c d"]
    right: Float[Tensor, "c d"]
    sparse: SparseScores

    def table(self) -> Float[Tensor, "c c"]:
        """All of them, rows for the left word."""
        dense = self.left @ self.right.T
        dense.view(-1)[self.sparse.codes] += self.sparse.weights
        return dense

    def at(self, left: Int[Tensor, " n"], right: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Of single pairs."""
        product = (self.left[left] * self.right[right]).sum(-1)
        return product + self.sparse.at(left * len(self.right) + right)

    def after(self, left: Int[Tensor, " n"]) -> Float[Tensor, "n c"]:
        """Of all words to the right of each of these."""
        rows = self.left[left] @ self.right.T
        self.sparse.add_to(rows, left)
        return rows

    def turned(self) -> PairScores:
        """The same scores by the right word."""
        size = len(self.left)
        first, second = self.sparse.codes // size, self.sparse.codes % size
        turned = SparseScores.of(second * size + first, self.sparse.weights)
        return PairScores(self.right, self.left, turned)

    def double(self) -> PairScores:
        sparse = SparseScores(self.sparse.codes, self.sparse.weights.double())
        return PairScores(self.left.double(), self.right.double(), sparse)


class TrigramPotentials(NamedTuple):
    """Scores of words, of words one and two apart, and of three words in a row."""

    unary: Float[Tensor, " c"]
    near: PairScores
    far: PairScores
    triples: SparseScores
    separator: int

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K: how many neighbours on each side a word is bound to."""
        return OFFSETS

    def double(self) -> TrigramPotentials:
        """The same scores in double precision."""
        triples = SparseScores(self.triples.codes, self.triples.weights.double())
        near, far = self.near.double(), self.far.double()
        return TrigramPotentials(self.unary.double(), near, far, triples, self.separator)

    def scores(
        self, first: Int[Tensor, " n"], second: Int[Tensor, " n"], third: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Of three words in a row."""
        parts = zip(*(own.split(AT_A_TIME) for own in (first, second, third)), strict=True)
        return torch.cat([self._scores(*own) for own in parts])

    def _scores(self, first: Tensor, second: Tensor, third: Tensor) -> Float[Tensor, " n"]:
        edge, size = self.separator, self.states
        codes = (first * size + second) * size + third
        total = self.unary[third] + self.near.at(second, third) + self.far.at(first, third)
        total = total + self.triples.at(codes)
        closing, ends = (second == edge) & (first != edge), third == edge
        total = total.masked_fill(closing & ends, 0.0)
        never = (closing & ~ends) | ((first == edge) & (second == edge) & ends)
        return total.masked_fill(never, -torch.inf)

    def position_scores(self, lines: Int[Tensor, "*b n"]) -> Float[Tensor, "*b n-2"]:
        """The score of each position of lines after the first two, with the words before it."""
        three = lines.unfold(-1, OFFSETS + 1, 1)
        flat = three.reshape(-1, OFFSETS + 1)
        return self.scores(*flat.unbind(1)).view(three.shape[:-1])

    def next_scores(
        self, first: Int[Tensor, " n"], second: Int[Tensor, " n"]
    ) -> Float[Tensor, "n c"]:
        """Of every word after each window of two."""
        edge = self.separator
        rows = self.near.after(second) + self.far.after(first) + self.unary
        self.triples.add_to(rows, first * self.states + second)
        opening = (first == edge) & (second == edge)
        rows[opening, edge] = -torch.inf
        closing = (second == edge) & ~opening
        rows[closing] = -torch.inf
        rows[closing, edge] = 0.0
        return rows

    def conditional(
        self, before: Int[Tensor, "n 2"], after: Int[Tensor, "n 2"]
    ) -> Float[Tensor, "n c"]:
        """Scores of every word in a gap, up to a constant per row; the separator's is no score.

        `before[:, l]` and `after[:, l]` are l + 1 words away.
        """
        size, edge = self.states, self.separator
        (one, two), (three, four) = before.unbind(1), after.unbind(1)
        scores = self.next_scores(two, one)
        # The word as the second of three.
        scores += self.near.turned().after(three)
        codes, weights = self.triples
        last, middle, first = codes % size, codes // size % size, codes // size**2
        across = SparseScores.of((first * size + last) * size + middle, weights)
        across.add_to(scores, one * size + three)
        # As the first of three; two separators follow each other by themselves.
        inside = three != edge
        scores[inside] += self.far.turned().after(four[inside])
        across = SparseScores.of((middle * size + last) * size + first, weights)
        ahead = scores[inside]
        across.add_to(ahead, three[inside] * size + four[inside])
        scores[inside] = ahead
        return scores

    def dense(self) -> WordPotentials:
        """The same field with a table of all triples; for small vocabularies."""
        size, device = self.states, self.unary.device
        window = torch.arange(size**2, device=device)
        table = self.next_scores(window // size, window % size).view(size, size, size)
        none = self.unary.new_zeros(1, size, 1)
        return WordPotentials(torch.zeros_like(self.unary), none.expand(2, -1, -1), none, table)
