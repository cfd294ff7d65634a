"""Word vectors from a table of scores of pairs of words, without training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from mrflearn.errors import DataError


def spectral_vectors(scores: csr_array, dims: int, seed: int) -> NDArray[np.float32]:
    """U S^(1/2) of the leading singular vectors: one row a word, zeros beyond the rank."""
    if not scores.nnz:
        raise DataError(
            "no two words stand near each other oftener than by chance, so they have no vectors. "
            "Is this a text of more than a few words, one sentence a line?"
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
