"""Probabilistic latent semantic analysis [Hofmann 2001]: documents as mixtures of topics.

p(w | d) = sum_h theta(d -> h) theta(h -> w).  Only the non-zero counts are visited: with
r = n(d, w) / p(w | d) there, the expected counts are theta(d -> h) sum_w r theta(h -> w) and
theta(h -> w) sum_d r theta(d -> h), products of a sparse matrix with narrow dense ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mrflearn.errors import DataError

Figures: TypeAlias = NDArray[np.float64]
TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class PLSA:
    """theta(h -> w), one row a word, and theta(d -> h), one row a document."""

    words: Figures  # (words, topics); every column sums to 1
    documents: Figures  # (documents, topics); every row sums to 1

    @classmethod
    def random(cls, documents: int, words: int, topics: int, seed: int) -> PLSA:
        """A start without symmetries: uniform numbers, normalised."""
        generator = np.random.default_rng(seed)
        # Far from zero, so that no topic is out of a word's reach from the beginning.
        drawn = generator.uniform(0.5, 1.5, (words, topics))
        shares = generator.uniform(0.5, 1.5, (documents, topics))
        return cls(drawn / drawn.sum(axis=0), shares / shares.sum(axis=1, keepdims=True))

    def log_likelihood(self, counts: csr_array) -> float:
        """log p of all the words given their documents, in nats."""
        return _expect(self.documents, self.words, counts)[2]

    def step(self, counts: csr_array, temperature: float = 1.0) -> tuple[float, PLSA]:
        """The log-likelihood, and the parameters after one EM step.

        Below a temperature of 1 the posterior of topics is flattened, p(h | d, w)^temperature
        up to a factor (tempered EM [Hofmann 2001, section 3.2]): slower, and less over-fitted.
        """
        heated = self if temperature == 1 else self._heated(temperature)
        ratio, documents, value = _expect(heated.documents, heated.words, counts)
        if heated is not self:
            value = self.log_likelihood(counts)
        words = heated.words * (ratio.T @ heated.documents)
        return value, PLSA(_normalised(words, 0, self.words), _rows(documents, self.documents))

    def fold_in(self, counts: csr_array, iterations: int = 50) -> Figures:
        """theta(d -> h) of new documents, topics held as they are; one row a document.

        A document without known words gets every topic alike.
        """
        topics = self.words.shape[1]
        shares = np.full((counts.shape[0], topics), 1 / topics)
        for _ in range(iterations):
            _, grown, _ = _expect(shares, self.words, counts)
            shares = _rows(grown, shares)
        return shares

    def _heated(self, temperature: float) -> PLSA:
        return PLSA(self.words**temperature, self.documents**temperature)


def document_counts(documents: list[NDArray[np.int64]], words: int) -> csr_array:
    """The sparse (documents, words) matrix of how often each word occurs in each document."""
    for number, ids in enumerate(documents, start=1):
        if len(ids) and not 0 <= ids.min() <= ids.max() < words:
            raise DataError(f"document {number} has a word number outside 0 to {words - 1}.")
    found = [np.unique(ids, return_counts=True) for ids in documents]
    indices = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in found)])
    data = np.concatenate([np.zeros(0), *(times for _, times in found)]).astype(np.float64)
    starts = np.cumsum([0, *(len(ids) for ids, _ in found)])
    return csr_array((data, indices, starts), shape=(len(documents), words))


def _expect(
    documents: Figures, words: Figures, counts: csr_array
) -> tuple[csr_array, Figures, float]:
    """(n(d, w) / p(w | d), expected counts of topics in documents, log-likelihood).

    One document at a time: its rows of `words`, gathered once, stay in the cache for both products.
    """
    ratio, topics, value = np.empty(counts.nnz), np.empty_like(documents), 0.0
    starts = counts.indptr.tolist()
    for d, (first, last) in enumerate(pairwise(starts)):
        seen, times = words[counts.indices[first:last]], counts.data[first:last]
        mixed = seen @ documents[d]
        with np.errstate(divide="ignore"):
            value += float(times @ np.log(mixed))
        share = times / np.maximum(mixed, TINY)
        topics[d] = documents[d] * (share @ seen)
        ratio[first:last] = share
    return csr_array((ratio, counts.indices, counts.indptr), shape=counts.shape), topics, value


def _rows(values: Figures, before: Figures) -> Figures:
    return _normalised(values, 1, before)


def _normalised(values: Figures, axis: int, before: Figures) -> Figures:
    """Values that sum to 1 along an axis; where there are none, what was there before."""
    total = values.sum(axis=axis, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1), before)
