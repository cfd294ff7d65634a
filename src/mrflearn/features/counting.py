"""Counting moments of text, in one process or by shards.

Sentences meet separators alone on both sides, so the counts of files are those of the whole text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.execution.executor import Executor
from mrflearn.features.moments import (
    MOST_STATES,
    Counts,
    Moments,
    PairCounts,
    TripleCounts,
    sum_by_key,
)
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

# One streaming pass over text into moments; memory follows distinct pairs, not the corpus.


def count_text(paths: Iterable[PathLike], vocabulary: Vocabulary, context: int = 2) -> Moments:
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
        ends = ids == LINE_END_ID
        closing = ends & ~np.concatenate([[self._open_words == 0], ends[:-1]])
        self._add_lengths(ends, closing)
        copies = np.where(ends, np.where(closing, self.context, 0), 1)
        symbols = np.repeat(np.where(ends, np.int32(self.vocabulary.separator), ids), copies)
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


def checked_moments(moments: Moments, context: int) -> Moments:
    """The same moments, if a language model of this context can be learned from them."""
    if moments.vocabulary is None:
        raise DataError("these moments have no vocabulary; a language model needs its words.")
    if moments.context != context:
        raise DataError(
            f"the moments were counted with a context of {moments.context}, this model has "
            f"{context}; try context={moments.context}."
        )
    return moments


def counted(text: Text, context: int, *, size: int | None = None, min_count: int = 1) -> Moments:
    """The moments of a text over its own vocabulary."""
    held = hold(text)
    words = count_corpus(held)
    vocabulary = Vocabulary.from_counts(words, size=size, min_count=min_count)
    return moments_of(held, vocabulary, context)


def moments_of(
    text: Text | Moments,
    vocabulary: Vocabulary | None,
    context: int,
    ids: NDArray[np.int32] | None = None,
) -> Moments:
    """The moments of a text over a vocabulary, or given moments if they are over that one.

    `ids` are those of the text, where it has been encoded before.
    """
    if isinstance(text, Moments):
        if text.vocabulary != vocabulary or text.context != context:
            raise DataError(
                "these moments have another vocabulary or context than the model; count the text "
                "with the model's own."
            )
        return text
    assert vocabulary is not None  # noqa: S101 - a language model has its words
    counter = MomentsCounter(vocabulary, context)
    counter.add(encode_corpus(hold(text), vocabulary) if ids is None else ids)
    moments = counter.moments()
    if not moments.words:
        name = f"{text}: " if isinstance(text, (str, os.PathLike)) else ""
        raise DataError(f"{name}there are no words in this text. Is the file empty?")
    return moments


# Moments of a text that lies in many files, counted wherever an executor runs.


@final
@dataclass(frozen=True)
class CountText:
    """The task of one worker: the moments of a text file."""

    vocabulary: Vocabulary
    context: int

    def __call__(self, path: PathLike) -> Moments:
        return count_text([path], self.vocabulary, self.context)


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
    moments = executor.total(CountText(vocabulary, context), paths)
    if not moments.words:
        raise DataError("there are no words in these files. Are they empty?")
    return moments
