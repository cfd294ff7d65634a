"""Words from one of several sources: caches of the document so far, and weights of sources.

p(word | before) = sum_s weight(c, s) p_s(word | before)

Every source is a distribution over words and sentence ends that knows what stands before a word and
nothing else, so their mixture is one too.  The weights depend on a class c of what stands before:
the length of the document so far, how well its caches know the last words, how well an n-gram
model knows them.  Classes are refined in this order, and a class leans on the coarser one that it
is part of, so that few words give it few opinions of its own [Jelinek & Mercer 1980].

Caches [Kuhn & De Mori 1990] are relative frequencies in the document so far, sentence ends among
them: of words, of words among the last ones only, and of words after the same last word, or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts

Figures: TypeAlias = NDArray[np.float64]

# Caches of the document so far.


WINDOW = 128  # tokens that the cache of recent words looks back
CACHE_ORDER = 3  # words and as many as two before
CACHES = ("document", "recent", "after a word", "after two")
HISTORIES, TIMES = 24, 5  # classes by binary logarithms: of the tokens before, of times seen


def cache_names(order: int) -> tuple[str, ...]:
    """The caches beside an n-gram model of an order: with 1, none looks at the words before."""
    return CACHES[: 1 + min(order, CACHE_ORDER)]


class CacheScores(NamedTuple):
    """What each cache makes of each token, and the class of what was known before it.

    A cache that knows nothing yet says what the next one below says, the lowest `otherwise`.
    """

    values: Figures  # (tokens, caches)
    classes: Counts


def cache_scores(text: DocumentStream, order: int, otherwise: Figures) -> CacheScores:
    """The caches before every token of a text of complete documents; `order` as in `cache_names`.

    `otherwise` is what another distribution makes of each token.
    """
    tokens, document = text.stream[1:], np.repeat(text.document, text.length + 1)
    here = np.arange(len(tokens))
    begins = np.concatenate([[True], document[1:] != document[:-1]])
    before = here - np.maximum.accumulate(np.where(begins, here, 0))
    states = int(text.stream.max()) + 1
    word = document * states + tokens
    plain = _ratio(_earlier(word), before, otherwise)
    # Occurrences in a window: a difference of places in one sorted list of (word, place).
    places = np.sort(word * len(here) + here)
    first = word * len(here) + here - np.minimum(before, WINDOW)
    recent = np.searchsorted(places, word * len(here) + here) - np.searchsorted(places, first)
    values = [plain, _ratio(recent, np.minimum(before, WINDOW), otherwise)]
    below, context, known = plain, document, np.zeros(len(here), np.int64)
    for n in range(2, min(order, CACHE_ORDER) + 1):
        # Before the document's first words stands nothing: each such context is one of its own.
        last = text.stream[np.maximum(here + 2 - n, 0)]
        context = np.unique(context * states + last, return_inverse=True)[1]
        inside = before >= n - 2
        own = np.where(inside, context, -1 - here)
        times = _earlier(own)
        below = _ratio(
            _earlier(np.where(inside, context * states + tokens, -1 - here)), times, below
        )
        values.append(below)
        known = np.where(times > 0, (n - 1) * TIMES + _steps(times, TIMES), known)
    return CacheScores(np.stack(values, axis=1), _steps(before, HISTORIES) + HISTORIES * known)


def next_in_caches(history: Counts, order: int, otherwise: Figures) -> CacheScores:
    """The same for every word there is, right after a document so far, its edges included.

    `history` begins with the separator before the document; `otherwise` has all words.
    """
    before, states = len(history) - 1, len(otherwise)

    def shares(followers: Counts, below: Figures) -> Figures:
        counts = np.bincount(followers, minlength=states)
        return counts / len(followers) if len(followers) else below

    below = shares(history[1:], otherwise)
    values, known = [below, shares(history[1:][-WINDOW:], otherwise)], 0
    for n in range(2, min(order, CACHE_ORDER) + 1):
        followers = np.zeros(0, np.int64)
        if before >= n - 2:
            starts = np.arange(max(0, len(history) - n + 1))
            same = np.ones(len(starts), bool)
            for k in range(n - 1):
                same &= history[starts + k] == history[len(history) - n + 1 + k]
            followers = history[starts[same] + n - 1]
        below = shares(followers, below)
        values.append(below)
        if len(followers):
            known = (n - 1) * TIMES + int(_steps(np.array([len(followers)]), TIMES)[0])
    number = int(_steps(np.array([before]), HISTORIES)[0]) + HISTORIES * known
    return CacheScores(np.stack(values, axis=1), np.full(states, number))


def _earlier(codes: Counts) -> Counts:
    """How often each code stands further in front."""
    order = np.argsort(codes, kind="stable")
    ordered, places = codes[order], np.arange(len(codes))
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    rank = places - np.maximum.accumulate(np.where(begins, places, 0))
    result = np.empty_like(rank)
    result[order] = rank
    return result


def _ratio(times: Counts, of: Counts, otherwise: Figures) -> Figures:
    return np.where(of > 0, times / np.maximum(of, 1), otherwise)


def _steps(numbers: Counts, most: int) -> Counts:
    """0, 1, 2, 3-4, ... as 0, 1, 2, 2, ...: binary logarithms, below `most`."""
    return np.minimum(np.ceil(np.log2(numbers + 1)).astype(np.int64), most - 1)


# Weights of sources by class, from text that no source has learned from.


STEPS, PRIOR = 30, 20.0  # of EM; words that a class is taken to have seen of the coarser one


@final
@dataclass(frozen=True, eq=False)
class TokenMixture:
    """Weights of sources, one row a class; rows sum to 1."""

    names: tuple[str, ...]
    weights: Figures

    @classmethod
    def fit(
        cls, names: Sequence[str], values: Figures, classes: Counts, sizes: Sequence[int]
    ) -> TokenMixture:
        """The weights under which tokens are most probable, by EM, after a Dirichlet prior.

        `values` has a row a token and a column a source.  A class is one whole number, its
        coarser ones the remainders by the products of the first `sizes`.  A class of histories
        beyond the longest seen here has the weights of that one.
        """
        used = np.full(values.shape[1], 1 / values.shape[1])[None]
        weights = _weigh(values, np.zeros(len(values), np.int64), used, 0.0)
        count = 1
        for place, size in enumerate(sizes):
            centre = weights[np.arange(count * size) % count]
            count *= size
            weights = _weigh(values, classes % count, centre, PRIOR)
            if not place:
                last = int((classes % count).max())
                weights[last + 1 :] = weights[last]
        return cls(tuple(names), weights)

    def of(self, values: Figures, classes: Counts) -> Figures:
        """p(token) of each row of what the sources say."""
        return np.asarray((self.weights[classes] * values).sum(axis=1))


def _weigh(values: Figures, classes: Counts, centre: Figures, prior: float) -> Figures:
    """EM for the weights of each class, around a centre of its own worth `prior` words."""
    kept, where = np.unique(classes, return_inverse=True)
    around, result = centre[kept], centre.copy()
    weights = around
    for _ in range(STEPS):
        share = weights[where] * values
        share /= share.sum(axis=1, keepdims=True)
        counts = [np.bincount(where, weights=own, minlength=len(kept)) for own in share.T]
        raised = np.stack(counts, axis=1) + prior * around
        weights = raised / raised.sum(axis=1, keepdims=True)
    result[kept] = weights
    return result
