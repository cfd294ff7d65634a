"""Positive pointwise mutual information (PPMI) of words over all offsets, and word vectors from it.

Chains whose pair scores differ between offsets by their weights alone, theta_l = rho_l theta, have
their best bound in closed form:

    theta(x, y) = log( p(x, y) / m(x) m(y) )

p mixes the pair frequencies of the offsets by the weights rho, read both ways; m is its marginal.
For then M_l(x, y) = exp( theta(x, y) + log m(y) ) = p(x, y) / m(x) is the same at all offsets, its
rows sum to one, and the pair marginals of the chains are p: the gradient of the bound is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from mrflearn.errors import DataError
from mrflearn.features.moments import Moments, PairCounts

ROUNDING = 1e-12  # a log-ratio below it is none


def harmonic_weights(offsets: int) -> tuple[float, ...]:
    """Weights in proportion to 1 / l, of sum 1: what stands nearer counts more."""
    total = sum(1 / k for k in range(1, offsets + 1))
    return tuple(1 / k / total for k in range(1, offsets + 1))


def mixed_frequencies(moments: Moments, weights: Sequence[float]) -> csr_array:
    """p: how often two words stand near each other, either first; symmetric, of sum 1.

    Pairs with a separator are left out: that a sentence ends is no word.
    """
    states, separator = moments.states, moments.separator
    one_way = csr_array((states, states))
    for pair, weight in zip(moments.pairs, weights, strict=True):
        words = (pair.left != separator) & (pair.right != separator)
        kept = PairCounts(pair.left[words], pair.right[words], pair.count[words])
        one_way = one_way + kept.matrix(states) * weight
    both = csr_array(one_way + one_way.T)
    total = both.sum()
    if total == 0:
        raise DataError("no two words stand near each other. Is there one word a line?")
    return csr_array(both / total)


def positive_log_ratios(frequencies: csr_array) -> csr_array:
    """theta where it is above zero; elsewhere, and for pairs never seen, nothing.

    So the table stays sparse, and the scores of unseen pairs finite.
    """
    entries = coo_array(frequencies)
    marginal = np.asarray(frequencies.sum(axis=1))
    expected = marginal[entries.row] * marginal[entries.col]
    ratios = np.log(entries.data / expected)
    kept = ratios > ROUNDING
    places = entries.row[kept], entries.col[kept]
    return csr_array((ratios[kept], places), shape=frequencies.shape)


def spectral_vectors(scores: csr_array, dims: int, seed: int) -> NDArray[np.float32]:
    """U S^(1/2) of the leading singular vectors: one row a word, zeros beyond the rank."""
    if not scores.nnz:
        raise DataError(
            "no two words occur near each other more often than by chance (PMI > 0), so they have "
            "no vectors. Is this a text of more than a few words, one sentence a line?"
        )
    rank = min(dims, *scores.shape)
    # Sparse products take most of the time, in one thread; on a busy machine the threads of the
    # many small dense steps between them would wait for each other five times as long.
    with threadpool_limits(1, user_api="blas"):
        left, size, _ = randomized_svd(scores, rank, random_state=seed)
    vectors = np.zeros((scores.shape[0], dims), np.float32)
    vectors[:, :rank] = left * np.sqrt(size)
    # A word without scores has no direction, not that of rounding errors.
    vectors[np.diff(scores.indptr) == 0] = 0
    return vectors
