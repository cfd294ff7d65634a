"""Moments of a text: counts of words and of pairs and triples at fixed offsets.

A corpus is one ring of positions [Jernite, Rush, Sontag 2015, section 4.1]: every sentence is
preceded by K separators, K the largest offset.  A sentence thus meets separators alone on both
sides, whatever its neighbours, so counts of corpora add up to the counts of all of them together.
An image wrapped into a torus has such moments too, at offsets in two dimensions; see
`lattice_moments`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from mrflearn.errors import DataError
from mrflearn.execution.executor import Executor
from mrflearn.io.corpus import (
    LINE_END_ID,
    Text,
    Vocabulary,
    count_corpus,
    count_words,
    encode_corpus,
    hold,
    read_blocks,
)
from mrflearn.io.files import PathLike

# All that the lifted language model reads of a corpus: word counts and pair counts at offsets.


MOST_STATES = 128  # whose triples are counted: all their scores are C^3 numbers
Offset: TypeAlias = tuple[int, ...]
Counts: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class TripleCounts:
    """Triples as rising codes `(first * states + second) * states + third`, with their counts."""

    codes: Counts
    count: Counts


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

    def matrix(self, states: int, values: NDArray[np.float64] | None = None) -> csr_array:
        """The counts, or other values of the pairs, as a sparse states x states matrix."""
        own = self.count.astype(np.float64) if values is None else values
        return csr_array((own, (self.left, self.right)), shape=(states, states))


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
    lengths: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    length_counts: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    separator: int | None = None
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


# One streaming pass over text into moments; memory follows distinct pairs, not the corpus.


def count_text(*paths: PathLike, vocabulary: Vocabulary, context: int = 2) -> Moments:
    """Moments of text files, one sentence a line, at the offsets 1 to `context`; `-` is stdin."""
    counter = MomentsCounter(vocabulary, context)
    for block in read_blocks(*paths):
        counter.add(vocabulary.encode_block(block))
    return counter.moments()


class MomentsCounter:
    """Adds up pieces of a corpus, cut anywhere; `moments` may be asked for between sentences.

    The ring is read from its first word on: the K separators that precede the corpus are those
    that follow its last sentence, so that each line end adds K separators and nothing is left over.
    """

    def __init__(self, vocabulary: Vocabulary, context: int) -> None:
        if context < 1:
            raise DataError(
                f"a context of {context} words has no pairs to count; ask for 1 or more."
            )
        self.vocabulary = vocabulary
        self.context = context
        self._tail = np.full(context, vocabulary.separator, np.int32)
        self._open_words = 0
        self._unary = np.zeros(len(vocabulary), np.int64)
        self._pairs = [_Runs() for _ in range(context)]
        self._lengths = _Runs()
        few = context > 1 and len(vocabulary) <= MOST_STATES
        self._triples = _Runs() if few else None

    def add(self, ids: NDArray[np.int32]) -> None:
        """Count the next ids; `LINE_END_ID` ends a sentence, and empty sentences are skipped."""
        separator, ends = self.vocabulary.separator, ids == LINE_END_ID
        symbols, closing, _ = ring_of(ids, separator, self.context, inside=self._open_words > 0)
        self._add_lengths(ends, closing)
        ring = np.concatenate([self._tail, symbols])
        self._unary += np.bincount(symbols, minlength=len(self._unary))
        states = len(self._unary)
        for offset, runs in enumerate(self._pairs, start=1):
            left = ring[self.context - offset : -offset].astype(np.int64)
            runs.add(*np.unique(left * states + symbols, return_counts=True))
        if self._triples is not None:
            row = ring[self.context - 2 :].astype(np.int64)
            codes = (row[:-2] * states + row[1:-1]) * states + row[2:]
            self._triples.add(*np.unique(codes, return_counts=True))
        self._tail = ring[-self.context :]

    def _add_lengths(self, ends: NDArray[np.bool_], closing: NDArray[np.bool_]) -> None:
        words_before = self._open_words + np.cumsum(~ends)
        totals = words_before[closing]
        self._lengths.add(*np.unique(np.diff(totals, prepend=0), return_counts=True))
        if len(ends):
            self._open_words = int(words_before[-1] - (totals[-1] if len(totals) else 0))

    def moments(self) -> Moments:
        """The moments so far, without filler."""
        if self._open_words:
            raise DataError("a sentence is still open; end it with a line end before counting up.")
        states = len(self._unary)
        lengths, length_counts = self._lengths.total()
        return Moments(
            offsets=tuple((offset,) for offset in range(1, self.context + 1)),
            unary=self._unary.copy(),
            pairs=tuple(PairCounts.from_codes(*runs.total(), states) for runs in self._pairs),
            lengths=lengths,
            length_counts=length_counts,
            separator=self.vocabulary.separator,
            vocabulary=self.vocabulary,
            triples=None if self._triples is None else TripleCounts(*self._triples.total()),
        )


def ring_of(
    ids: NDArray[np.int32], separator: int, context: int, *, inside: bool = False
) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.int64]]:
    """A piece of a corpus with K separators for each line end, from its first word on.

    Comes with which of the ids end a sentence that has words (the first may be `inside` one), and
    how many positions each id has.
    """
    ends = ids == LINE_END_ID
    closing = ends & ~np.concatenate([[not inside], ends[:-1]])
    copies = np.where(ends, np.where(closing, context, 0), 1)
    return np.repeat(np.where(ends, np.int32(separator), ids), copies), closing, copies


class _Runs:
    """Sorted runs of (key, count), merged so that each is at least twice as long as the next.

    A key then takes part in a number of merges that grows as the logarithm of the corpus.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Counts, Counts]] = []

    def add(self, keys: Counts, counts: Counts) -> None:
        self._runs.append((keys, counts))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge_last(2)

    def total(self) -> tuple[Counts, Counts]:
        """Distinct keys, rising, and their counts."""
        if not self._runs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._merge_last(len(self._runs))
        return self._runs[0]

    def _merge_last(self, number: int) -> None:
        last = self._runs[-number:]
        keys = np.concatenate([run[0] for run in last]).astype(np.int64)
        counts = np.concatenate([run[1] for run in last]).astype(np.int64)
        self._runs[-number:] = [sum_by_key(keys, counts)]


# The moments a language model reads, of whatever its user hands over.


def moments_of(
    text: Text | Moments,
    context: int,
    vocabulary: Vocabulary | None = None,
    *,
    ids: NDArray[np.int32] | None = None,
    size: int | None = None,
    min_count: int = 1,
) -> Moments:
    """The moments of a text over a vocabulary (its own with None), or given ones if they fit.

    `ids` are those of the text, where it has been encoded before; `size` and `min_count` limit its
    own vocabulary.
    """
    if isinstance(text, Moments):
        _check_usable(text, context, vocabulary)
        return text
    if vocabulary is None:
        text = hold(text)
        vocabulary = Vocabulary.from_counts(count_corpus(text), size=size, min_count=min_count)
    counter = MomentsCounter(vocabulary, context)
    counter.add(encode_corpus(hold(text), vocabulary) if ids is None else ids)
    moments = counter.moments()
    if not moments.words:
        name = f"{text}: " if isinstance(text, (str, os.PathLike)) else ""
        raise DataError(f"{name}there are no words in this text. Is the file empty?")
    return moments


def _check_usable(moments: Moments, context: int, vocabulary: Vocabulary | None) -> None:
    if moments.vocabulary is None:
        raise DataError("these moments have no vocabulary; a language model needs its words.")
    if moments.context != context:
        raise DataError(
            f"the moments were counted with a context of {moments.context}, this model has "
            f"{context}; try context={moments.context}."
        )
    if vocabulary is not None and moments.vocabulary != vocabulary:
        raise DataError(
            "these moments have another vocabulary than the model; count the text with the "
            "model's own."
        )


# Moments of a text that lies in many files, counted wherever an executor runs.


def count_text_shards(
    paths: Sequence[PathLike],
    executor: Executor,
    *,
    context: int = 2,
    size: int | None = None,
    min_count: int = 1,
    like: Moments | None = None,
) -> Moments:
    """The moments of all files over their common vocabulary; each file is read twice.

    With `like`, over the vocabulary and context of other moments.
    """
    if any(str(path) == "-" for path in paths):
        raise DataError("standard input flows by once only; give the text as files.")
    if like is None:
        counts = executor.total(count_words, paths)
        vocabulary = Vocabulary.from_counts(counts, size=size, min_count=min_count)
    elif like.vocabulary is not None:
        vocabulary, context = like.vocabulary, like.context
    else:
        raise DataError("the moments to be like have no vocabulary; count them from a text.")
    task = partial(count_text, vocabulary=vocabulary, context=context)
    moments = executor.total(task, paths)
    if not moments.words:
        raise DataError("there are no words in these files. Are they empty?")
    return moments


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
    pairs = tuple(_lattice_pairs(grid, offset, states) for offset in offsets)
    return Moments(tuple(offsets), np.bincount(grid.ravel(), minlength=states), pairs)


def _lattice_pairs(grid: Counts, offset: Offset, states: int) -> PairCounts:
    if len(offset) != grid.ndim:
        raise DataError(
            f"offset {offset} has {len(offset)} numbers, but the image has {grid.ndim} dimensions."
        )
    back = tuple(-step for step in offset)
    right = np.roll(grid, back, axis=tuple(range(grid.ndim)))
    codes, count = np.unique(grid * states + right, return_counts=True)
    return PairCounts.from_codes(codes, count.astype(np.int64), states)
