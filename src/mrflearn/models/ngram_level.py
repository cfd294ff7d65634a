"""An n-gram model as a level of the composite: probabilities of tokens, and how far to trust them.

Trust is told by buckets: the longest context before a token that was ever seen, how often it was
seen, and how often what followed was new [Chen & Goodman 1999, section 2.4, on bucketing].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.data.vocabulary import Vocabulary
from mrflearn.models.kneser_ney import kneser_ney
from mrflearn.models.ngram import NgramModel
from mrflearn.statistics.ngrams import Counts, count_ngrams, windows

Figures: TypeAlias = NDArray[np.float64]
SIZES, NOVELTIES = 8, 4  # steps of log2(times seen), and of the share of followers that were new


def bucket_count(order: int) -> int:
    """How many buckets an n-gram model of this order tells apart."""
    return 1 + (order - 1) * SIZES * NOVELTIES


@final
@dataclass(frozen=True, eq=False)
class NgramLevel:
    """A model and, for each order above the first, how often each context was seen and renewed."""

    model: NgramModel
    seen: tuple[Counts, ...]
    kinds: tuple[Counts, ...]

    @classmethod
    def learn(cls, stream: Counts, order: int, vocabulary: Vocabulary) -> NgramLevel:
        """The Kneser-Ney model of a stream of sentences."""
        grams = count_ngrams(stream, order, len(vocabulary), vocabulary.separator)
        seen, kinds = [], []
        for below, above in pairwise(grams):
            context = above.code // len(vocabulary)
            times = np.bincount(context, weights=above.count, minlength=len(below))
            seen.append(times.astype(np.int64))
            kinds.append(np.bincount(context, minlength=len(below)))
        return cls(kneser_ney(grams, vocabulary), tuple(seen), tuple(kinds))

    def probabilities(self, stream: Counts, *, without_ends: bool) -> Figures:
        """p of each symbol after the first; `without_ends`: given that the sentence goes on."""
        found = self.model.log_probabilities(stream)
        if not without_ends:
            return np.asarray(np.exp(found))
        ends = self._log_ends(stream)
        # Rounding must not make a sentence that surely ends here go on with more than it has.
        return np.asarray(np.exp(found) / np.maximum(-np.expm1(ends), 1e-9))

    def buckets(self, stream: Counts) -> Counts:
        """The bucket of each symbol after the first."""
        result = np.zeros(len(stream) - 1, np.int64)
        for n, (starts, context) in enumerate(self._contexts(stream), start=2):
            times, kinds = self.seen[n - 2][context], self.kinds[n - 2][context]
            known = times > 0
            times, kinds, here = times[known], kinds[known], (starts + n - 2)[known]
            size = np.minimum(np.log2(times).astype(np.int64), SIZES - 1)
            novelty = np.minimum(NOVELTIES * kinds // np.maximum(times, 1), NOVELTIES - 1)
            result[here] = 1 + ((n - 2) * SIZES + size) * NOVELTIES + novelty
        return result

    def _contexts(self, stream: Counts) -> list[tuple[Counts, Counts]]:
        """For orders from 2 on: where n-grams with a known context start, and its place."""
        states, separator = len(self.model.vocabulary), self.model.vocabulary.separator
        place, starts, result = stream, np.arange(len(stream)), []
        for n in range(2, self.model.order + 1):
            starts = windows(stream, starts, n, separator)
            starts = starts[place[starts] >= 0]
            result.append((starts, place[starts]))
            found = self.model.tables[n - 1].find(place[starts] * states + stream[starts + n - 1])
            place = np.full(len(stream), -1)
            place[starts] = found
        return result

    def _log_ends(self, stream: Counts) -> Figures:
        """log p(the sentence ends) in place of each symbol after the first."""
        states, separator = len(self.model.vocabulary), self.model.vocabulary.separator
        result = np.full(len(stream) - 1, self.model.tables[0].log_probability[separator])
        for n, (starts, context) in enumerate(self._contexts(stream), start=2):
            table, here = self.model.tables[n - 1], starts + n - 2
            found = table.find(context * states + separator)
            backed_off = result[here] + self.model.tables[n - 2].log_backoff[context]
            own = table.log_probability
            result[here] = np.where(found >= 0, own[found], backed_off) if len(own) else backed_off
        return result
