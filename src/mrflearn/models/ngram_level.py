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
from scipy.sparse import csr_array

from mrflearn.features.ngrams import Counts, count_ngrams, windows
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.kneser_ney import kneser_ney
from mrflearn.models.ngram import NgramModel

Figures: TypeAlias = NDArray[np.float64]
SIZES, NOVELTIES = 8, 4  # steps of log2(times seen), and of the share of followers that were new


def with_blind(tag_of_word: Figures) -> Figures:
    """p(preterminal | word) and one more column for what can be any of them: the blind level's."""
    made = (tag_of_word.sum(axis=1, keepdims=True) > 0).astype(np.float64)
    return np.concatenate([tag_of_word, made], axis=1)


def bucket_count(order: int) -> int:
    """How many buckets an n-gram model of this order tells apart."""
    return 1 + (order - 1) * SIZES * NOVELTIES


@final
@dataclass(frozen=True, eq=False)
class NgramLevel:
    """A model and, for each order above the first, its contexts: how often seen and renewed.

    `suffixes` is where an n-gram's last words stand in the order below, and `shorter` where its
    context without its first word does among contexts there.
    """

    model: NgramModel
    seen: tuple[Counts, ...]
    kinds: tuple[Counts, ...]
    suffixes: tuple[Counts, ...]
    shorter: tuple[Counts, ...]

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
        suffixes = tuple(above.suffix for above in grams[1:])
        # Every word's context without its first word is the empty one.
        shorter = tuple(below.suffix for below in grams[:-1])
        return cls(kneser_ney(grams, vocabulary), tuple(seen), tuple(kinds), suffixes, shorter)

    def tagged(self, stream: Counts, tag_of_word: Figures) -> Figures:
        """p(word | words before, preterminal) of each symbol after the first, (tokens, tags).

        The n-gram model and p(preterminal | word), one row a word, give it by Bayes' rule:
        p(w | uv) p(A | w) / sum_x p(x | uv) p(A | x).  A word whose row is zero, such as the
        sentence end where a grammar makes it, is left out of all of this.
        """
        result = np.exp(self.model.log_probabilities(stream))[:, None] * tag_of_word[stream[1:]]
        norms = self._norms(tag_of_word)
        below = np.broadcast_to(norms[0], result.shape).copy()
        for n, (starts, context) in enumerate(self._contexts(stream), start=2):
            below[starts + n - 2] = norms[n - 1][context]
        return np.asarray(result / np.maximum(below, np.finfo(np.float64).tiny))

    def _norms(self, tag_of_word: Figures) -> list[Figures]:
        """sum_x p(x | context) p(A | x) for each context of each order, (contexts, tags).

        A context gives its own words their share and leaves the rest to the context one word
        shorter, so its sum is that one's, weighed, and what its own words have beyond.
        """
        states, tables = len(self.model.vocabulary), self.model.tables
        lower = np.exp(tables[0].log_probability)
        norms = [lower[None] @ tag_of_word]
        for n in range(2, self.model.order + 1):
            context, word = np.divmod(tables[n - 1].code, states)
            backoff = np.exp(tables[n - 2].log_backoff)
            own = np.exp(tables[n - 1].log_probability)
            beyond = own - backoff[context] * lower[self.suffixes[n - 2]]
            where = (context, np.arange(len(context)))
            spread = csr_array((beyond, where), shape=(len(backoff), len(context)))
            inherited = norms[-1][self.shorter[n - 2]]
            norms.append(backoff[:, None] * inherited + spread @ tag_of_word[word])
            lower = own
        return norms

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
