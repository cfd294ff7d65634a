"""Moments of a text: counts of words and of pairs and triples at fixed offsets.

A table of scores for all triples has C^3 numbers, too many for more than a hundred words or so.

A corpus is one ring of positions [Jernite, Rush, Sontag 2015, section 4.1]: every sentence is
preceded by K separators, K the largest offset.  A sentence thus meets separators alone on both
sides, whatever its neighbours, so counts of corpora add up to the counts of all of them together.
An image wrapped into a torus has such moments too, at offsets in two dimensions; see
`torus_moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import DataError
from mrflearn.io.corpus import Vocabulary

# How often three states stand in a row: counted where the vocabulary is small.


MOST_STATES = 128


@final
@dataclass(frozen=True, eq=False)
class TripleCounts:
    """Triples as rising codes `(first * states + second) * states + third`, with their counts."""

    codes: NDArray[np.int64]
    count: NDArray[np.int64]


# All that the lifted language model reads of a corpus: word counts and pair counts at offsets.


Offset: TypeAlias = tuple[int, ...]
Counts: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class PairCounts:
    """How often each pair of states stands at one offset; pairs rise by (left, right)."""

    left: Counts
    right: Counts
    count: Counts

    @classmethod
    def from_codes(cls, codes: Counts, count: Counts, states: int) -> PairCounts:
        """Pairs from sorted codes `left * states + right`."""
        left, right = np.divmod(codes, states)
        return cls(left, right, count)

    def codes(self, states: int) -> Counts:
        """Each pair as the number `left * states + right`."""
        return self.left * states + self.right


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The sufficient statistics of a ring or torus of positions, as whole numbers.

    `unary[x]` counts state x and `pairs[l]` the pairs at `offsets[l]`; sentences of `lengths[i]`
    words were seen `length_counts[i]` times (both empty where unknown).  `separator` is the id of
    `<S>`, None on a torus; `filler` of its occurrences only round up the number of positions.
    `triples` are three states in a row, None where they were not counted.
    """

    offsets: tuple[Offset, ...]
    unary: Counts
    pairs: tuple[PairCounts, ...]
    lengths: Counts
    length_counts: Counts
    separator: int | None
    vocabulary: Vocabulary | None = None
    filler: int = 0
    triples: TripleCounts | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def states(self) -> int:
        """C: the number of words, separators included, or of grey levels."""
        return len(self.unary)

    @property
    def positions(self) -> int:
        """N: positions of the ring, separators and filler counted in."""
        return int(self.unary.sum())

    @property
    def context(self) -> int:
        """K: the largest offset of a text."""
        return max(max(offset) for offset in self.offsets)

    @property
    def words(self) -> int:
        """Positions that are not separators."""
        return self.positions - self._separators

    @property
    def sentences(self) -> int:
        """Sentences, each preceded by K separators; 0 on a torus."""
        return (self._separators - self.filler) // self.context

    @property
    def _separators(self) -> int:
        return 0 if self.separator is None else int(self.unary[self.separator])

    def __add__(self, other: Moments) -> Moments:
        """Counts of both corpora as one, as `merge` gives them."""
        return merge(self, other)

    def rounded_up(self, multiple: int | None = None) -> Moments:
        """The same ring with separators added until N is a multiple (of K + 1 unless given).

        Next to K separators one more adds a pair (`<S>`, `<S>`) at every offset and no other.
        """
        bare = self.without_filler()
        filler = -bare.positions % (multiple or self.context + 1)
        return bare._with_more_filler(filler)

    def without_filler(self) -> Moments:
        """The same ring without the separators that only round it up."""
        return self._with_more_filler(-self.filler)

    def _with_more_filler(self, more: int) -> Moments:
        if more == 0:
            return self
        if self.separator is None:
            raise DataError("a torus has no separators, so its size cannot be rounded up.")
        unary, states, filler = self.unary.copy(), self.states, self.filler + more
        unary[self.separator] += more
        corner = self.separator * (states + 1), more
        pairs = tuple(
            PairCounts.from_codes(*_sum([(pair.codes(states), pair.count), corner]), states)
            for pair in self.pairs
        )
        triples = self.triples
        if triples is not None:
            corner = self.separator * (states * states + states + 1), more
            triples = TripleCounts(*_sum([(triples.codes, triples.count), corner]))
        return replace(self, unary=unary, pairs=pairs, filler=filler, triples=triples)


def merge(*moments: Moments) -> Moments:
    """Counts of all the corpora as one: what counting their concatenation gives.

    Filler is left out; `rounded_up` puts it back for the whole.  Triples stay if all have them.
    """
    if not moments:
        raise DataError("nothing to merge: give at least one record of moments.")
    for other in moments[1:]:
        _check_mergeable(moments[0], other)
    parts = [part.without_filler() for part in moments]
    states = parts[0].states
    pairs = tuple(
        PairCounts.from_codes(*_sum([(pair.codes(states), pair.count) for pair in same]), states)
        for same in zip(*(part.pairs for part in parts), strict=True)
    )
    lengths, length_counts = _sum([(part.lengths, part.length_counts) for part in parts])
    triples = [(own.codes, own.count) for part in parts if (own := part.triples) is not None]
    return replace(
        parts[0],
        unary=np.sum([part.unary for part in parts], axis=0),
        pairs=pairs,
        lengths=lengths,
        length_counts=length_counts,
        triples=TripleCounts(*_sum(triples)) if len(triples) == len(parts) else None,
    )


def sum_by_key(keys: Counts, values: Counts) -> tuple[Counts, Counts]:
    """Distinct keys, rising, each with the sum of its values; sums of zero are dropped."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(values, first) if len(first) else values
    kept = sums != 0
    return keys[first][kept], sums[kept]


def _sum(parts: Sequence[tuple[ArrayLike, ArrayLike]]) -> tuple[Counts, Counts]:
    """The distinct keys of all parts (keys, values), rising, each with the sum of its values."""
    keys, values = (np.concatenate([np.atleast_1d(p[side]) for p in parts]) for side in (0, 1))
    return sum_by_key(keys, values.astype(np.int64))


def _check_mergeable(first: Moments, other: Moments) -> None:
    if first.offsets != other.offsets:
        raise DataError(
            f"moments at offsets {first.offsets} and at {other.offsets} do not add up; "
            "count both corpora with the same context."
        )
    mine, theirs = first.vocabulary, other.vocabulary
    same_words = mine is theirs or (mine is not None and theirs is not None and mine == theirs)
    if not same_words or (first.states, first.separator) != (other.states, other.separator):
        raise DataError(
            "moments over different vocabularies do not add up; count both corpora with one."
        )


def _check(moments: Moments) -> None:
    sizes = {len(offset) for offset in moments.offsets}
    if len(sizes) != 1 or len(moments.pairs) != len(moments.offsets):
        raise DataError(
            f"moments need one list of pairs for each offset; got {len(moments.pairs)} for "
            f"{moments.offsets}."
        )
    if moments.vocabulary is not None and len(moments.vocabulary) != moments.states:
        raise DataError(
            f"{moments.states} counts for a vocabulary of {len(moments.vocabulary)} words."
        )
    if moments.separator is not None and not 0 <= moments.separator < moments.states:
        raise DataError(f"the separator {moments.separator} is outside 0..{moments.states - 1}.")
    triples = moments.triples
    if triples is not None and triples.count.sum() != moments.positions:
        raise DataError(
            f"{triples.count.sum()} triples, but {moments.positions} positions; on a ring every "
            "position begins one."
        )
    for offset, pair in zip(moments.offsets, moments.pairs, strict=True):
        _check_pairs(pair, moments.states, moments.positions, offset)


def _check_pairs(pair: PairCounts, states: int, positions: int, offset: Offset) -> None:
    ends = np.stack([pair.left, pair.right])
    if (ends < 0).any() or (ends >= states).any() or (pair.count < 0).any():
        raise DataError(
            f"a pair at offset {offset} has a state outside 0..{states - 1} or a negative count."
        )
    if pair.count.sum() != positions:
        raise DataError(
            f"{pair.count.sum()} pairs at offset {offset}, but {positions} positions; on a ring "
            "every position has one right neighbour at each offset."
        )


# The moments of an image, or of any lattice of states, wrapped into a torus.


def lattice_moments(
    image: ArrayLike, offsets: Sequence[Offset] = ((0, 1), (1, 0)), *, states: int | None = None
) -> Moments:
    """Moments of a torus of states (grey levels), of any number of dimensions.

    A pair at offset (i, j) is a position and the one i rows down and j columns to the right.
    """
    grid = np.asarray(image)
    if grid.size == 0 or not np.issubdtype(grid.dtype, np.integer) or grid.min() < 0:
        raise DataError(
            f"an image of states needs whole numbers from 0, at least one; this one has the shape "
            f"{grid.shape} and the type {grid.dtype}. Round grey levels to a few bins first."
        )
    grid = grid.astype(np.int64)
    states = int(grid.max()) + 1 if states is None else states
    if grid.max() >= states:
        raise DataError(f"the image holds the state {grid.max()}; states={states} ends before it.")
    none = np.zeros(0, np.int64)
    return Moments(
        offsets=tuple(offsets),
        unary=np.bincount(grid.ravel(), minlength=states),
        pairs=tuple(_lattice_pairs(grid, offset, states) for offset in offsets),
        lengths=none,
        length_counts=none,
        separator=None,
    )


def _lattice_pairs(grid: Counts, offset: Offset, states: int) -> PairCounts:
    if len(offset) != grid.ndim:
        raise DataError(
            f"offset {offset} has {len(offset)} numbers, but the image has {grid.ndim} dimensions."
        )
    back = tuple(-step for step in offset)
    right = np.roll(grid, back, axis=tuple(range(grid.ndim)))
    codes, count = np.unique(grid * states + right, return_counts=True)
    return PairCounts.from_codes(codes, count.astype(np.int64), states)
