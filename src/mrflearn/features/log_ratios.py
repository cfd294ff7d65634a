"""How much oftener words stand near each other than by chance, over all offsets at once.

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
from scipy.sparse import coo_array, csr_array

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
    parts = [
        _counts(pair, moments) * weight for pair, weight in zip(moments.pairs, weights, strict=True)
    ]
    one_way = csr_array(sum(parts[1:], start=parts[0]))
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


def _counts(pair: PairCounts, moments: Moments) -> csr_array:
    words = (pair.left != moments.separator) & (pair.right != moments.separator)
    places = pair.left[words], pair.right[words]
    shape = (moments.states, moments.states)
    return csr_array((pair.count[words].astype(np.float64), places), shape=shape)
