"""Moments of a text: counts of words and of pairs and triples at fixed offsets.

A corpus is one ring of positions [Jernite, Rush, Sontag 2015, section 4.1]: every sentence is
preceded by K separators, K the largest offset.  A sentence thus meets separators alone on both
sides, whatever its neighbours, so counts of corpora add up to the counts of all of them together.
An image wrapped into a torus has such moments too, at offsets in two dimensions; see
`lattice_moments`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from mrflearn.errors import DataError
from mrflearn.execution.executor import Executor, Serial
from mrflearn.execution.held import Held
from mrflearn.features.ngrams import NgramCounts, count_ngrams, sentence_stream
from mrflearn.io import corpus
from mrflearn.io.corpus import LINE_END_ID, Text, Vocabulary
from mrflearn.io.files import PathLike

# All that the lifted language model reads of a corpus: word counts and pair counts at offsets.


MOST_STATES = 128  # whose triples are counted unasked: free tables have C^3 numbers
Offset: TypeAlias = tuple[int, ...]
Counts: TypeAlias = NDArray[np.int64]
Part: TypeAlias = tuple[ArrayLike, ArrayLike]  # keys, and a value of each


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
    `triples` are three states in a row, None where they were not counted; `longer` the n-grams of
    orders 1 to n within sentences, where they were.  Sums of moments have none of the latter.
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
    longer: tuple[NgramCounts, ...] = ()

    def sizes(self) -> dict[str, Any]:
        """How much was counted, and how many different pairs at each distance, and triples."""
        found: dict[str, Any] = {"words": self.words, "sentences": self.sentences}
        found |= {"vocabulary": self.states, "context": self.context}
        found["pairs"] = [len(pair.count) for pair in self.pairs]
        return found | ({} if self.triples is None else {"triples": len(self.triples.count)})

    def __post_init__(self) -> None:
        last, positions = self.states - 1, self.positions
        if len(set(map(len, self.offsets))) != 1 or len(self.pairs) != len(self.offsets):
            raise DataError(
                f"one list of pairs an offset is needed: {len(self.pairs)} for {self.offsets}."
            )
        if self.vocabulary is not None and len(self.vocabulary) != self.states:
            raise DataError(
                f"{self.states} counts for a vocabulary of {len(self.vocabulary)} words."
            )
        if self.separator is not None and not 0 <= self.separator <= last:
            raise DataError(f"the separator {self.separator} is outside 0..{last}.")
        counts = {} if self.triples is None else {"triples": self.triples.count}
        for offset, pair in zip(self.offsets, self.pairs, strict=True):
            ends = np.stack([pair.left, pair.right])
            if (ends < 0).any() or (ends > last).any() or (pair.count < 0).any():
                raise DataError(
                    f"a pair at offset {offset} has a state outside 0..{last} or a negative count."
                )
            counts[f"pairs at offset {offset}"] = pair.count
        for name, count in counts.items():
            if count.sum() != positions:
                raise DataError(
                    f"{count.sum()} {name}, but {positions} positions; on a ring each begins one."
                )

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
        return max(map(max, self.offsets))

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
        """Counts of both corpora as one: what counting their concatenation gives.

        Filler is left out; `rounded_up` puts it back.  Triples stay if both have them.
        """
        if self.offsets != other.offsets:
            raise DataError(
                f"moments at offsets {self.offsets} and at {other.offsets} do not add up; "
                "count both corpora with the same context."
            )
        mine, theirs = ((own.vocabulary, own.states, own.separator) for own in (self, other))
        if mine != theirs:
            raise DataError(
                "moments over different vocabularies do not add up; count both corpora with one."
            )
        one, two = self._with_filler(0), other._with_filler(0)
        lengths, counts = _sum([(own.lengths, own.length_counts) for own in (one, two)])
        pairs = [(pair.codes(two.states), pair.count) for pair in two.pairs]
        triples = None if two.triples is None else (two.triples.codes, two.triples.count)
        found = {"lengths": lengths, "length_counts": counts}
        return one._plus(two.unary, pairs, triples, longer=(), **found)

    def rounded_up(self, multiple: int | None = None) -> Moments:
        """The same ring with separators added until N is a multiple (of K + 1 unless given).

        Next to K separators one more adds a pair (`<S>`, `<S>`) at every offset and no other.
        """
        return self._with_filler((self.filler - self.positions) % (multiple or self.context + 1))

    def _with_filler(self, filler: int) -> Moments:
        """The same ring with so many separators that only round it up."""
        states, place = self.states, self.separator
        more = filler - self.filler
        if more == 0:
            return self
        if place is None:
            raise DataError("a torus has no separators, so its size cannot be rounded up.")
        pair, triple = place * (states + 1), place * (states * states + states + 1)
        unary = more * (np.arange(states) == place)
        return self._plus(unary, [(pair, more)] * len(self.pairs), (triple, more), filler=filler)

    def _plus(
        self, unary: Counts, pairs: Sequence[Part], triples: Part | None, **changed: Any
    ) -> Moments:
        """The sum with more counts of words and of coded pairs and triples."""
        pair_sums = tuple(
            PairCounts.from_codes(*_sum([(own.codes(self.states), own.count), more]), self.states)
            for own, more in zip(self.pairs, pairs, strict=True)
        )
        triple_sums = None
        if self.triples is not None and triples is not None:
            own_triples = self.triples.codes, self.triples.count
            triple_sums = TripleCounts(*_sum([own_triples, triples]))
        unary = self.unary + unary
        return replace(self, unary=unary, pairs=pair_sums, triples=triple_sums, **changed)


def sum_by_key(keys: Counts, values: Counts) -> tuple[Counts, Counts]:
    """Distinct keys, rising, each with the sum of its values; sums of zero are dropped."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(values, first) if len(first) else values
    kept = sums != 0
    return keys[first][kept], sums[kept]


def _sum(parts: Sequence[Part]) -> tuple[Counts, Counts]:
    """The distinct keys of all parts (keys, values), rising, each with the sum of its values."""
    none = np.zeros(0, np.int64)  # there may be no parts
    keys = np.concatenate([none, *(np.atleast_1d(keys) for keys, _ in parts)])
    values = np.concatenate([none, *(np.atleast_1d(values) for _, values in parts)])
    return sum_by_key(keys, values)


# One streaming pass over text into moments; memory follows distinct pairs, not the corpus.


def count_text(
    *paths: PathLike, vocabulary: Vocabulary, context: int = 2, triples: bool = False
) -> Moments:
    """Moments of text files, one sentence a line, at the offsets 1 to `context`; `-` is stdin."""
    counter = MomentsCounter(vocabulary, context, triples=triples)
    for block in corpus.read_blocks(*paths):
        counter.add(vocabulary.encode_block(block))
    return counter.moments()


class MomentsCounter:
    """Adds up pieces of a corpus, cut anywhere; `moments` may be asked for between sentences.

    The ring is read from its first word on: the K separators that precede the corpus are those
    that follow its last sentence, so that each line end adds K separators and nothing is left over.
    """

    def __init__(self, vocabulary: Vocabulary, context: int, *, triples: bool = False) -> None:
        if context < 1 + triples:
            counted = "triples" if triples else "pairs"
            raise DataError(
                f"a context of {context} words has no {counted} to count; ask for {1 + triples} or "
                "more."
            )
        self.vocabulary = vocabulary
        self.context = context
        self._tail = np.full(context, vocabulary.separator, np.int32)
        self._open_words = 0
        self._unary = np.zeros(len(vocabulary), np.int64)
        self._pairs = [_Runs() for _ in range(context)]
        self._lengths = _Runs()
        few = context > 1 and len(vocabulary) <= MOST_STATES
        self._triples = _Runs() if triples or few else None

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
        lengths, length_counts = _sum(self._lengths)
        return Moments(
            offsets=tuple((offset,) for offset in range(1, self.context + 1)),
            unary=self._unary.copy(),
            pairs=tuple(PairCounts.from_codes(*_sum(runs), states) for runs in self._pairs),
            lengths=lengths,
            length_counts=length_counts,
            separator=self.vocabulary.separator,
            vocabulary=self.vocabulary,
            triples=None if self._triples is None else TripleCounts(*_sum(self._triples)),
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


class _Runs(list[tuple[Counts, Counts]]):
    """Sorted runs of (key, count), merged so that each is at least twice as long as the next.

    A key then takes part in a number of merges that grows as the logarithm of the corpus.
    """

    def add(self, keys: Counts, counts: Counts) -> None:
        self.append((keys, counts))
        while len(self) > 1 and len(self[-2][0]) < 2 * len(self[-1][0]):
            self[-2:] = [_sum(self[-2:])]


# The moments a language model reads, of whatever its user hands over.


def moments_of(
    text: Text | Moments,
    context: int,
    vocabulary: Vocabulary | None = None,
    *,
    ids: NDArray[np.int32] | None = None,
    vocabulary_size: int | None = None,
    min_count: int = 1,
    triples: bool = False,
    order: int = 3,
) -> Moments:
    """The moments of a text over a vocabulary (its own with None), or given ones if they fit.

    `ids` are those of the text, where it has been encoded before; `vocabulary_size` and
    `min_count` limit its own vocabulary.  With an `order` above 3 longer n-grams are counted, too.
    """
    if isinstance(text, Moments):
        _check_usable(text, context, vocabulary)
        if triples and text.triples is None:
            raise DataError(
                "these moments do not count three words in a row; count the text with triples "
                "(`mrflearn count --triples`)."
            )
        return text
    if vocabulary is None:
        text = corpus.hold(text)
        counts = corpus.count_corpus(text)
        vocabulary = Vocabulary.from_counts(counts, size=vocabulary_size, min_count=min_count)
    counter = MomentsCounter(vocabulary, context, triples=triples)
    ids = corpus.encode_corpus(corpus.hold(text), vocabulary) if ids is None else ids
    counter.add(ids)
    moments = counter.moments()
    if not moments.words:
        name = f"{text}: " if isinstance(text, (str, os.PathLike)) else ""
        raise DataError(f"{name}there are no words in this text. Is the file empty?")
    if order > 3:
        stream, edge = sentence_stream(ids, vocabulary.separator), vocabulary.separator
        longer = tuple(count_ngrams(stream, order, len(vocabulary), edge))
        moments = replace(moments, longer=longer)
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
        raise DataError("these moments have another vocabulary; count with that of the model.")


# Moments of a text that lies in many files, counted wherever an executor runs.


def count_text_shards(
    paths: Sequence[PathLike] | Held[Text],
    executor: Executor | None = None,
    *,
    context: int = 2,
    vocabulary_size: int | None = None,
    min_count: int = 1,
    like: Moments | None = None,
    triples: bool = False,
) -> Moments:
    """The moments of all files, or texts held, over their common vocabulary; each is read twice.

    With `like`, over the vocabulary and context of other moments, and with triples if these have
    them.
    """
    if not isinstance(paths, Held) and any(str(path) == "-" for path in paths):
        raise DataError("standard input flows by once only; give the text as files.")
    place = Serial() if executor is None else executor
    total = paths.total if isinstance(paths, Held) else partial(_total, place, paths)
    if like is None:
        counts = total(corpus.count_text_words)
        vocabulary = Vocabulary.from_counts(counts, size=vocabulary_size, min_count=min_count)
    elif like.vocabulary is not None:
        vocabulary, context = like.vocabulary, like.context
        triples = triples or like.triples is not None
    else:
        raise DataError("the moments to be like have no vocabulary; count them from a text.")
    moments = total(CountText(vocabulary, context, triples))
    if not moments.words:
        raise DataError("there are no words in these files. Are they empty?")
    return moments


def _total(place: Executor, texts: Sequence[PathLike], task: Callable[[Any], Any]) -> Any:
    return place.total(task, texts)


@final
@dataclass(frozen=True, eq=False)
class CountText:
    """The task of one worker: the moments of a file, or of sentences."""

    vocabulary: Vocabulary
    context: int
    triples: bool

    def __call__(self, text: Text) -> Moments:
        held, words = corpus.hold(text), self.vocabulary
        if not isinstance(held, list):
            return count_text(held, vocabulary=words, context=self.context, triples=self.triples)
        counter = MomentsCounter(words, self.context, triples=self.triples)
        counter.add(corpus.encode_corpus(held, words))
        return counter.moments()


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
    pairs = []
    for offset in offsets:
        if len(offset) != grid.ndim:
            raise DataError(f"offset {offset} of an image that has {grid.ndim} dimensions.")
        right = np.roll(grid, [-step for step in offset], axis=tuple(range(grid.ndim)))
        codes, count = np.unique(grid * states + right, return_counts=True)
        pairs.append(PairCounts.from_codes(codes, count.astype(np.int64), states))
    return Moments(tuple(offsets), np.bincount(grid.ravel(), minlength=states), tuple(pairs))
