"""n-gram models with back-off weights, scored and sampled over whole corpora at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.features.ngrams import Counts, find_codes, windows
from mrflearn.io.vocabulary import Vocabulary

Figures: TypeAlias = NDArray[np.float64]
TABLE_PARTS = ("code", "log_probability", "log_backoff")


@final
@dataclass(frozen=True, eq=False)
class BackoffTable:
    """The n-grams of one order, by rising code; see `NgramCounts.code`.

    `log_probability` is of the last word after the others; `log_backoff` weighs the order below
    after the whole n-gram, where the order above lacks the next word.
    """

    code: Counts
    log_probability: Figures
    log_backoff: Figures

    def __post_init__(self) -> None:
        if not len(self.code) == len(self.log_probability) == len(self.log_backoff):
            raise DataError("an n-gram table needs one probability and one back-off for each code.")
        if self.code.dtype != np.int64 or self.code.ndim != 1:
            raise DataError(f"codes of n-grams are whole numbers, not {self.code.dtype}.")
        if (np.diff(self.code) <= 0).any():
            raise DataError("the codes of an n-gram table must rise: one comes twice, or too late.")

    def __len__(self) -> int:
        return len(self.code)

    def find(self, codes: Counts) -> Counts:
        """The place of each code, -1 where the table lacks it."""
        return find_codes(self.code, codes)


@final
@dataclass(frozen=True, eq=False)
class TokenScores:
    """The log-probability of every predicted symbol in nats; which end sentences or are unknown."""

    log_probability: Figures
    ends: NDArray[np.bool_]
    unknown: NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class NgramModel:
    """Tables of orders 1 to n.  The vocabulary's separator both begins and ends a sentence."""

    vocabulary: Vocabulary
    tables: tuple[BackoffTable, ...]

    def __post_init__(self) -> None:
        states, below = len(self.vocabulary), 1
        for n, table in enumerate(self.tables, start=1):
            if len(table) and not 0 <= table.code[0] <= table.code[-1] < below * states:
                raise DataError(f"a code of order {n} names a word or a context that is not there.")
            below = len(table)
        if len(self.tables[0]) != states:
            raise DataError(f"{len(self.tables[0])} unigrams for {states} words.")

    @property
    def order(self) -> int:
        return len(self.tables)

    def log_probabilities(self, stream: Counts) -> Figures:
        """The log-probability of each symbol of a stream after the first, in nats."""
        separator, states = self.vocabulary.separator, len(self.vocabulary)
        result = self.tables[0].log_probability[stream[1:]]
        place, starts = stream, np.arange(len(stream))
        for n in range(2, self.order + 1):
            starts = windows(stream, starts, n, separator)
            starts = starts[place[starts] >= 0]
            context = place[starts]
            found = self.tables[n - 1].find(context * states + stream[starts + n - 1])
            here = starts + n - 2  # where the last word's figure stands in `result`
            backed_off = result[here] + self.tables[n - 2].log_backoff[context]
            own = self.tables[n - 1].log_probability
            result[here] = np.where(found >= 0, own[found], backed_off) if len(own) else backed_off
            place = np.full(len(stream), -1)
            place[starts] = found
        return result

    def next_symbol(self, context: Sequence[int] | Counts) -> Figures:
        """Log-probabilities of every next symbol; a context is ids from a sentence's start on."""
        states = len(self.vocabulary)
        result = self.tables[0].log_probability.copy()
        for n, place in self._contexts([self.vocabulary.separator, *context]):
            result += self.tables[n - 2].log_backoff[place]
            table = self.tables[n - 1]
            first, last = np.searchsorted(table.code, [place * states, (place + 1) * states])
            result[table.code[first:last] % states] = table.log_probability[first:last]
        return result

    def _contexts(self, history: Sequence[int]) -> Iterator[tuple[int, int]]:
        """(order, place of the order - 1 last symbols) for orders from 2 on, where known."""
        states = len(self.vocabulary)
        for n in range(2, min(self.order, len(history) + 1) + 1):
            last = history[len(history) - n + 1 :]
            place = last[0]
            for table, symbol in zip(self.tables[1:], last[1:], strict=False):
                place = int(table.find(np.array([place * states + symbol]))[0])
                if place < 0:
                    break
            if place >= 0:
                yield n, place

    def sample(self, generator: np.random.Generator, longest: int) -> list[int]:
        """The ids of one new sentence, cut off after `longest` words."""
        words: list[int] = []
        while len(words) < longest:
            total = np.cumsum(np.exp(self.next_symbol(words)))
            drawn = int(np.searchsorted(total, generator.uniform(0, total[-1]), side="right"))
            symbol = min(drawn, len(total) - 1)
            if symbol == self.vocabulary.separator:
                break
            words.append(symbol)
        return words
