"""Words sorted into classes by their neighbours, where nothing is known of their tags."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, hstack
from scipy.sparse.linalg import svds
from sklearn.cluster import KMeans

from mrflearn.errors import DataError
from mrflearn.features.joint_moments import with_separators
from mrflearn.features.tagged_sentences import TaggedSentences

NEIGHBOURS = 500  # the most frequent words, which stand for the contexts of all
DIMENSIONS = 30


def cluster_words(
    sentences: TaggedSentences, vocabulary: int, clusters: int, seed: int
) -> Int[np.ndarray, " w"]:
    """A class from 0 on for each word, by how often frequent words stand beside it.

    Words must be numbered by falling frequency, the separator first.
    """
    if clusters > vocabulary:
        raise DataError(
            f"{clusters} tags were asked for, but there are only {vocabulary - 1} different words."
        )
    vectors, counts = context_vectors(sentences, vocabulary, seed)
    means = KMeans(clusters, n_init=3, random_state=seed)
    found = means.fit_predict(vectors, sample_weight=np.sqrt(counts + 1e-9))
    return np.asarray(found, dtype=np.int64)


def context_vectors(
    sentences: TaggedSentences, vocabulary: int, seed: int
) -> tuple[Float[np.ndarray, "w d"], Float[np.ndarray, " w"]]:
    """A vector of length 1 for each word, from the words to its left and right, and its count."""
    words = with_separators(sentences.words, sentences.lengths, 1)
    sides = []
    for step in (-1, 1):
        beside = np.roll(words, -step)
        kept = beside < NEIGHBOURS
        ones = np.ones(int(kept.sum()))
        sides.append(coo_array((ones, (words[kept], beside[kept])), (vocabulary, NEIGHBOURS)))
    table = np.sqrt(hstack(sides).tocsr())
    counts = np.bincount(words, minlength=vocabulary).astype(np.float64)
    size = min(DIMENSIONS, min(table.shape) - 1)
    start = np.random.default_rng(seed).normal(size=min(table.shape))
    left, values, _ = svds(table, k=size, v0=start)
    vectors = left * values
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1.0), counts
