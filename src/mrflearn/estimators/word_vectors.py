"""`WordVectors`: vectors of words from pair counts, in seconds and without training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.nearest_words import WordSpace
from mrflearn.estimators.text_moments import checked_moments, counted
from mrflearn.features.log_ratios import (
    harmonic_weights,
    mixed_frequencies,
    positive_log_ratios,
)
from mrflearn.features.moments import Moments
from mrflearn.io.corpus import Text
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.spectral_vectors import spectral_vectors
from mrflearn.models.storage import texts


class WordVectors(WordSpace):
    """Words as points: near each other where they stand near the same words.

    The scores of a Markov random field that is alike at all offsets have a closed form, and the
    vectors are its leading singular vectors; nothing is trained.

    dims: dimensions of the vectors.
    context: how many words on each side count, the nearer the more.
    minimum_count, vocabulary_size: rarer words are read as `<unk>`.
    """

    def __init__(
        self,
        dims: int = 100,
        context: int = 8,
        *,
        minimum_count: int = 1,
        vocabulary_size: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.dims = dims
        self.context = context
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.random_state = random_state

    def fit(self, X: Text | Moments, y: object = None) -> Self:
        """Learns from lists of words, a text file with one sentence a line, or moments."""
        del y  # scikit-learn passes it to every estimator
        if self.dims < 1:
            raise DataError(f"dims={self.dims}: a vector needs one dimension or more.")
        moments = checked_moments(X, self.context) if isinstance(X, Moments) else self.count(X)
        weights = harmonic_weights(len(moments.offsets))
        ratios = positive_log_ratios(mixed_frequencies(moments, weights))
        assert moments.vocabulary is not None  # noqa: S101 - both ways here made sure
        self._vocabulary = moments.vocabulary
        self._vectors = spectral_vectors(ratios, self.dims, self.random_state)
        return self

    def count(self, text: Text) -> Moments:
        """The moments of a text, to `fit` or to keep."""
        return counted(
            text, self.context, size=self.vocabulary_size, minimum_count=self.minimum_count
        )

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for the edge of a sentence and `<unk>` for any other word."""
        found: Vocabulary = self._after_fit("_vocabulary")
        return found

    @property
    def vectors_(self) -> NDArray[np.float32]:
        """The vector of each word, in the order of the vocabulary; that of `<S>` is zero."""
        found: NDArray[np.float32] = self._after_fit("_vectors")
        return found

    def _learned_parts(self) -> Parts:
        vectors = torch.from_numpy(self.vectors_)
        return {"words": list(self.vocabulary_.words)}, {"vectors": vectors}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._vocabulary = Vocabulary(texts(learned, "words"))
        self._vectors = np.asarray(tensors["vectors"].cpu())
        if len(self._vectors) != len(self._vocabulary):
            raise DataError("words and vectors differ in number")
