"""Distinct n-grams of all orders with counts and suffixes, and an index of them.

A corpus is one stream in which a separator stands before, between and after the sentences: it ends
one sentence and begins the next, so no n-gram has it in its middle.  An n-gram is known by the
place of its first n - 1 words among the distinct (n-1)-grams, and its last word; so one int64 is
enough for n-grams of any order.

A table of order n has a row for each distinct n-gram of a training text, in the order of
`NgramCounts`, and two more: the row `unseen` for any other last word after a context that was
seen, and `strange` for any word after a context that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.execution.held import Held
from mrflearn.io.corpus import LINE_END_ID, Text, Vocabulary, encode_corpus, hold

# Every distinct n-gram of a corpus with its count, order by order, by sorting whole numbers.


Counts: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class NgramCounts:
    """The distinct n-grams of one order, by rising code.

    `code` is (place of the first n - 1 words in the order below) * states + last word, `count`
    the occurrences, `suffix` the place of the last n - 1 words in the order below, and `begins`
    tells whether the first word is the separator.  Unigrams are all the states, seen or not.
    """

    code: Counts
    count: Counts
    suffix: Counts
    begins: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.code)


def sentence_stream(ids: NDArray[np.int32], separator: int) -> Counts:
    """Ids with line ends as a stream with single separators; empty sentences leave no trace."""
    ends = np.concatenate([[True], ids == LINE_END_ID, [True]])
    symbols = np.concatenate([[separator], ids, [separator]]).astype(np.int64)
    symbols[ends] = separator
    repeated = ends[1:] & ends[:-1]
    kept: Counts = symbols[np.concatenate([[True], ~repeated])]
    return kept


class OrderStep(NamedTuple):
    """Where n-grams of an order start whose context is known, and the place of each.

    Places are among the distinct n-grams of an order, -1 for an n-gram that is not there; `below`
    has those of the (n-1)-grams that start at each symbol.
    """

    order: int
    starts: Counts
    below: Counts
    place: Counts

    @property
    def context(self) -> Counts:
        """The places of the contexts."""
        return self.below[self.starts]

    @property
    def tokens(self) -> Counts:
        """The places of the last words, among the symbols after the first."""
        return self.starts + self.order - 2


def walk_orders(
    stream: Counts, order: int, states: int, separator: int, find: Callable[[int, Counts], Counts]
) -> Iterator[OrderStep]:
    """The n-grams of a stream from bigrams on; `find(n, codes)` says where each stands."""
    below, starts = stream, np.arange(len(stream))
    for n in range(2, order + 1):
        starts = starts[starts + n <= len(stream)]
        if n > 2:
            starts = starts[stream[starts + n - 2] != separator]
        starts = starts[below[starts] >= 0]
        place = find(n, below[starts] * states + stream[starts + n - 1])
        yield OrderStep(n, starts, below, place)
        below = np.full(len(stream), -1)
        below[starts] = place


def count_ngrams(stream: Counts, order: int, states: int, separator: int) -> list[NgramCounts]:
    """The n-grams of orders 1 to `order` of a stream made by `sentence_stream`."""
    if len(stream) < 2:
        raise DataError("the corpus has no words. Is the file empty, or made of blank lines?")
    nothing = np.zeros(states, np.int64)
    # The first separator is never predicted: it only begins.
    unigrams = np.bincount(stream[1:], minlength=states)
    found = [NgramCounts(np.arange(states), unigrams, nothing, nothing.astype(bool))]
    distinct = []

    def number(_: int, codes: Counts) -> Counts:
        code, first, inverse, count = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        distinct.append((code, count, first))
        return inverse.reshape(-1)

    for step in walk_orders(stream, order, states, separator, number):
        code, count, first = distinct.pop()
        start = step.starts[first]
        found.append(NgramCounts(code, count, step.below[start + 1], stream[start] == separator))
    return found


def find_codes(codes: Counts, wanted: Counts) -> Counts:
    """The place of each wanted code among rising ones, -1 where it is not."""
    if not len(codes):
        return np.full(len(wanted), -1)
    # Searched for in rising order they are found from cache: half the time, sorting counted in.
    order = np.argsort(wanted)
    asked, found = wanted[order], np.empty_like(wanted)
    place = np.minimum(np.searchsorted(codes, asked), len(codes) - 1)
    found[order] = np.where(codes[place] == asked, place, -1)
    return found


# Which row of a table belongs to each token of a text: the n-gram that ends there.


@final
@dataclass(frozen=True, eq=False)
class NgramIndex:
    """The codes of the distinct n-grams of orders 2 and up, by rising code; see `NgramCounts`."""

    states: int
    separator: int
    codes: tuple[Counts, ...]

    @classmethod
    def of(cls, stream: Counts, order: int, states: int, separator: int, *, ends: bool) -> Self:
        """The n-grams of a stream of sentences; `ends`: also those that end a sentence."""
        codes, place = [], np.arange(states)
        for grams in count_ngrams(stream, order, states, separator)[1:]:
            kept = np.ones(len(grams), bool) if ends else grams.code % states != separator
            context, last = np.divmod(grams.code[kept], states)
            codes.append(place[context] * states + last)
            place = np.cumsum(kept) - 1  # nothing follows an n-gram that ends a sentence
        return cls(states, separator, tuple(codes))

    @property
    def order(self) -> int:
        return len(self.codes) + 1

    def size(self, order: int) -> int:
        """How many n-grams of this order there are."""
        return self.states if order == 1 else len(self.codes[order - 2])

    def contexts(self, order: int) -> tuple[Counts, int]:
        """The context of each n-gram of this order, and how many contexts there are."""
        if order == 1:
            return np.zeros(self.states, np.int64), 1
        return self.codes[order - 2] // self.states, self.size(order - 1)

    def rows(self, stream: Counts) -> Counts:
        """For each order, the row of each symbol of a stream after the first."""
        result = np.empty((self.order, len(stream) - 1), np.int64)
        result[0] = stream[1:]

        def find(n: int, codes: Counts) -> Counts:
            return find_codes(self.codes[n - 2], codes)

        for step in walk_orders(stream, self.order, self.states, self.separator, find):
            row = result[step.order - 1]
            unseen = self.size(step.order)
            context, contexts = self.contexts(step.order)
            strange = np.bincount(context, minlength=contexts)[step.context] == 0
            row[:] = unseen + 1  # a strange context, unless the line below knows
            row[step.tokens] = np.where(step.place >= 0, step.place, unseen + strange)
        return result


# N-grams of a text in pieces, counted where the pieces are and added up by key.


@final
@dataclass(frozen=True, eq=False)
class NgramRows:
    """Distinct n-grams as rows of ids in lexicographic order; sums of them are sums of texts."""

    ids: NDArray[np.int32]
    count: Counts

    def __add__(self, other: NgramRows) -> NgramRows:
        ids = np.concatenate([self.ids, other.ids])
        count = np.concatenate([self.count, other.count])
        if not len(count):
            return self
        order = np.lexsort(ids.T[::-1])
        ids, count = ids[order], count[order]
        new = np.concatenate([[True], (ids[1:] != ids[:-1]).any(axis=1)])
        return NgramRows(ids[new], np.add.reduceat(count, np.flatnonzero(new)))


@final
@dataclass(frozen=True, eq=False)
class CountNgrams:
    """The task of one worker: the n-grams of a text, dealt to `pieces` by their first word.

    The results are in parts: all pieces of unigrams, all of bigrams, and so on.
    """

    vocabulary: Vocabulary
    order: int
    pieces: int

    def __call__(self, text: Text) -> list[NgramRows]:
        states, separator = len(self.vocabulary), self.vocabulary.separator
        stream = sentence_stream(encode_corpus(hold(text), self.vocabulary), separator)
        found = []
        rows = np.arange(states, dtype=np.int32)[:, None]
        grams = count_ngrams(stream, self.order, states, separator) if len(stream) > 1 else None
        for n in range(self.order):
            count = np.zeros(0, np.int64) if grams is None else grams[n].count
            if grams is None:
                rows = np.zeros((0, n + 1), np.int32)
            elif n:
                place, last = np.divmod(grams[n].code, states)
                rows = np.column_stack([rows[place], last.astype(np.int32)])
            dealt = rows[:, 0] % self.pieces
            kept = [(dealt == k) & (count > 0) for k in range(self.pieces)]
            found += [NgramRows(rows[own], count[own]) for own in kept]
        return found


def count_held_ngrams(text: Held[Text], order: int, vocabulary: Vocabulary) -> list[NgramCounts]:
    """The n-grams of orders 1 to `order` of all pieces of a text, as `count_ngrams` gives them."""
    states, pieces = len(vocabulary), text.place.width
    rows = list(text.map_totals(CountNgrams(vocabulary, order, pieces), itemgetter(1)))
    found: list[NgramCounts] = []
    for n in range(order):
        own = rows[n * pieces : (n + 1) * pieces]
        ids = np.concatenate([part.ids for part in own]).astype(np.int64)
        count = np.concatenate([part.count for part in own])
        if n:
            code = _places(found, ids[:, :-1]) * states + ids[:, -1]
            sort = np.argsort(code)
            ids = ids[sort]
            begins = ids[:, 0] == vocabulary.separator
            found.append(NgramCounts(code[sort], count[sort], _places(found, ids[:, 1:]), begins))
        else:
            if not len(ids):
                raise DataError("the corpus has no words. Are the files empty?")
            unigrams = np.zeros(states, np.int64)
            unigrams[ids[:, 0]] = count
            nothing = np.zeros(states, np.int64)
            found.append(NgramCounts(np.arange(states), unigrams, nothing, nothing.astype(bool)))
    return found


def _places(grams: Sequence[NgramCounts], ids: Counts) -> Counts:
    """The place of each row of ids among the n-grams of its order."""
    place = ids[:, 0]
    for n in range(1, ids.shape[1]):
        place = find_codes(grams[n].code, place * len(grams[0]) + ids[:, n])
    return place
