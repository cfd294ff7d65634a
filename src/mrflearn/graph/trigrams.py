"""Potentials of the trigram field: low-rank pair scores, and sparse scores of what was seen.

    score(x, y, z) = unary(z) + near(y, z) + far(x, z) + triple(x, y, z)
    near = A1 R1^T + B,   far = A2 R2^T + F;   B, F and the triples are sparse

of every three positions in a row of a ring of text.  Sentences have two separators S between them,
and that is certain: x S z is impossible unless one of x and z is S too, and so is S S S.  The
second separator follows the first of itself: x S S has the score 0.

Longer n-grams may have sparse scores of their own, which add to these.  They lie within a sentence,
one separator before it and one after it counted in, and contain shorter ones that are listed too.
Letters in shapes: c: words; d: dimensions; p: sparse scores; n: windows of two words, or histories
of k words, the last one last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
        return weights_at(self.weights, find_places(self.codes, codes))

    def add_to(self, rows: Float[Tensor, "n c"], prefixes: Int[Tensor, " n"]) -> None:
        """Adds to each row the scores of the codes that begin with its prefix."""
        size = rows.shape[1]
        row, place = between(self.codes, prefixes * size, (prefixes + 1) * size)
        rows[row, self.codes[place] - prefixes[row] * size] += self.weights[place]

    def put_into(self, rows: Float[Tensor, "n c"], prefixes: Int[Tensor, " n"]) -> None:
        """Puts them in the place of what the rows have there."""
        size = rows.shape[1]
        row, place = between(self.codes, prefixes * size, (prefixes + 1) * size)
        rows[row, self.codes[place] - prefixes[row] * size] = self.weights[place]


def find_places(codes: Int[Tensor, " p"], wanted: Int[Tensor, "*b"]) -> Int[Tensor, "*b"]:
    """Where each code stands among rising ones; -1: nowhere."""
    if not len(codes):
        return torch.full_like(wanted, -1)
    place = torch.searchsorted(codes, wanted).clamp_max_(len(codes) - 1)
    return place.masked_fill_(codes[place] != wanted, -1)


def weights_at(weights: Float[Tensor, " p"], places: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """The weights at these places; 0 for -1."""
    if not len(weights):
        return weights.new_zeros(places.shape)
    return weights[places.clamp_min(0)] * (places >= 0)


def between(
    keys: Int[Tensor, " p"], first: Int[Tensor, " n"], end: Int[Tensor, " n"]
) -> tuple[Int[Tensor, " q"], Int[Tensor, " q"]]:
    """All pairs of a range and a place of the rising keys that lie in it, up to its end."""
    begin = torch.searchsorted(keys, first)
    count = torch.searchsorted(keys, end) - begin
    row = torch.arange(len(first), device=keys.device).repeat_interleave(count)
    shift = begin - count.cumsum(0) + count
    return row, torch.arange(len(row), device=keys.device) + shift[row]


class LongerScores(NamedTuple):
    """Scores of n-grams of one order above 3, by rising codes.

    A code is the place of the first n - 1 words among the n-grams of the order below (of order 3:
    the triples), times c, plus the last word; `suffix` is the place there of the last n - 1 words.
    """

    codes: Int[Tensor, " p"]
    weights: Float[Tensor, " p"]
    suffix: Int[Tensor, " p"]


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


def suffix_places(codes: Sequence[Int[Tensor, " p"]], size: int) -> list[Int[Tensor, " p"]]:
    """Of n-grams of orders 4 and up, given those of order 3 and up: places of their last words."""
    found, below = [], codes[0] % size**2
    for shorter, own in pairwise(codes):
        below = find_places(shorter, below[own // size] * size + own % size)
        found.append(below)
    return found


class TrigramPotentials(NamedTuple):
    """Scores of words, of words one and two apart, of three words in a row, and of longer ones."""

    unary: Float[Tensor, " c"]
    near: PairScores
    far: PairScores
    triples: SparseScores
    separator: int
    longer: tuple[LongerScores, ...] = ()

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K: how many neighbours on each side a word is bound to."""
        return OFFSETS + len(self.longer)

    def double(self) -> TrigramPotentials:
        """The same scores in double precision."""
        triples = SparseScores(self.triples.codes, self.triples.weights.double())
        near, far = self.near.double(), self.far.double()
        longer = tuple(own._replace(weights=own.weights.double()) for own in self.longer)
        return TrigramPotentials(self.unary.double(), near, far, triples, self.separator, longer)

    def scores(
        self, first: Int[Tensor, " n"], second: Int[Tensor, " n"], third: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Of three words in a row, without longer n-grams."""
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

    def places(self, lines: Int[Tensor, "n k"]) -> list[Int[Tensor, "n j"]]:
        """By order from 3 on: which n-gram ends at each place of lines where one may; -1: none."""
        size, found = self.states, []
        below = lines[:, :-1] * size + lines[:, 1:]
        for codes in (self.triples.codes, *(own.codes for own in self.longer)):
            before = below[:, :-1]
            place = find_places(codes, before * size + lines[:, lines.shape[1] - before.shape[1] :])
            below = place.masked_fill_(before < 0, -1)
            found.append(below)
        return found

    def position_scores(self, lines: Int[Tensor, "*b n"]) -> Float[Tensor, "*b m"]:
        """The score of each position of lines after the first K, with the words before it."""
        flat = lines.reshape(-1, lines.shape[-1])
        own = flat[:, len(self.longer) :].unfold(-1, OFFSETS + 1, 1)
        total = self.scores(*own.reshape(-1, OFFSETS + 1).unbind(1)).view(own.shape[:-1])
        if self.longer:
            for longer, places in zip(self.longer, self.places(flat)[1:], strict=True):
                total += weights_at(longer.weights, places[:, places.shape[1] - total.shape[1] :])
        return total.view(*lines.shape[:-1], -1)

    def next_scores(self, history: Int[Tensor, "n k"]) -> Float[Tensor, "n c"]:
        """Of every word after each history; what is further back than K words has no say."""
        edge = self.separator
        first, second = history[:, -2], history[:, -1]
        rows = self.near.after(second) + self.far.after(first) + self.unary
        self.triples.add_to(rows, first * self.states + second)
        for own, places in zip(self.longer, self.places(history), strict=False):
            if places.shape[1]:
                SparseScores(own.codes, own.weights).add_to(rows, places[:, -1])
        opening = (first == edge) & (second == edge)
        rows[opening, edge] = -torch.inf
        closing = (second == edge) & ~opening
        rows[closing] = -torch.inf
        rows[closing, edge] = 0.0
        return rows

    def conditional(
        self, before: Int[Tensor, "n k"], after: Int[Tensor, "n k"]
    ) -> Float[Tensor, "n c"]:
        """Scores of every word in a gap, up to a constant per row; the separator's is no score.

        `before[:, l]` and `after[:, l]` are l + 1 words away.
        """
        size, edge = self.states, self.separator
        one, three, four = before[:, 0], after[:, 0], after[:, 1]
        scores = self.next_scores(before.flip(1))
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
        self._add_longer(scores, before, after)
        return scores

    def _add_longer(self, scores: Tensor, before: Tensor, after: Tensor) -> None:
        """Adds the scores of longer n-grams that have a gap's word, but not as the last one."""
        size, (codes, _) = self.states, self.triples
        words = torch.stack((codes // size**2, codes // size % size, codes % size), 1)
        for own in self.longer:
            words = torch.cat((words[own.codes // size], (own.codes % size).unsqueeze(1)), 1)
            order = words.shape[1]
            for at in range(order - 1):
                others = torch.cat((words[:, :at], words[:, at + 1 :]), 1)
                known = torch.cat((before[:, :at].flip(1), after[:, : order - 1 - at]), 1)
                keys, order_of = _as_numbers(others, size).sort(stable=True)
                wanted = _as_numbers(known, size)
                row, place = between(keys, wanted, wanted + 1)
                place = order_of[place]
                where = (row, words[place, at])
                scores.index_put_(where, own.weights[place], accumulate=True)

    def dense(self) -> WordPotentials:
        """The same field with a table of all triples; for small vocabularies, no longer n-grams."""
        size, device = self.states, self.unary.device
        window = torch.arange(size**2, device=device)
        history = torch.stack((window // size, window % size), 1)
        table = self.next_scores(history).view(size, size, size)
        none = self.unary.new_zeros(1, size, 1)
        return WordPotentials(torch.zeros_like(self.unary), none.expand(2, -1, -1), none, table)


def _as_numbers(words: Int[Tensor, "n k"], size: int) -> Int[Tensor, " n"]:
    """Each row as one number; up to four words of 55,000 fit."""
    found = words[:, 0]
    for column in words[:, 1:].unbind(1):
        found = found * size + column
    return found
