"""Which row of a table belongs to each token of a text: the n-gram that ends there.

A table of order n has a row for each distinct n-gram of a training text, in the order of
`NgramCounts`, and two more: the row `unseen` for any other last word after a context that was
seen, and `strange` for any word after a context that was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from mrflearn.features.ngrams import Counts, count_ngrams, find_codes, windows


@final
@dataclass(frozen=True, eq=False)
class NgramIndex:
    """The codes of the distinct n-grams of orders 2 and up, by rising code; see `NgramCounts`."""

    states: int
    separator: int
    codes: tuple[Counts, ...]

    @classmethod
    def of(
        cls, stream: Counts, order: int, states: int, separator: int, *, ends: bool
    ) -> NgramIndex:
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
        place, starts = stream, np.arange(len(stream))
        for n in range(2, self.order + 1):
            unseen = self.size(n)
            context, contexts = self.contexts(n)
            known = np.bincount(context, minlength=contexts) > 0
            starts = windows(stream, starts, n, self.separator)
            starts = starts[place[starts] >= 0]
            starts = starts[known[place[starts]]]
            wanted = place[starts] * self.states + stream[starts + n - 1]
            found = find_codes(self.codes[n - 2], wanted)
            result[n - 1] = unseen + 1  # a strange context, unless the lines below know better
            result[n - 1, starts + n - 2] = np.where(found >= 0, found, unseen)
            place = np.full(len(stream), -1)
            place[starts] = found
        return result
