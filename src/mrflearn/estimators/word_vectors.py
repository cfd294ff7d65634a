"""`WordVectors`: vectors of words from pair counts, in seconds and without training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
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
    """Word vectors in closed form: words are near where they stand near the same words.

    The pair scores of a Markov random field that is the same at all offsets are positive pointwise
    mutual information (PPMI); the vectors are its leading singular vectors.  Nothing is trained.

    Parameters
    ----------
    dims
        Dimensions of the vectors.
    context
        Words on each side that count, nearer ones more.
    min_count
        Words seen less often are read as `<unk>`.
    vocabulary_size
        Only this many words are kept, the most frequent; None keeps all.
    random_state
        Seed of the randomised singular value decomposition.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, with `<S>` for sentence boundaries and `<unk>` for any other word.
    vectors_ : ndarray of shape (words, dims)
        The vector of each word, in the order of the vocabulary; that of `<S>` is zero.

    """

    def __init__(
        self,
        dims: int = 100,
        context: int = 8,
        *,
        min_count: int = 1,
        vocabulary_size: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.dims = dims
        self.context = context
        self.min_count = min_count
        self.vocabulary_size = vocabulary_size
        self.random_state = random_state

    def fit(self, X: Text | Moments, y: object = None) -> Self:
        """Learns from a text or from its counts.

        Parameters
        ----------
        X
            Sentences, each a list of words; a text file with one sentence per line; or moments.
        y
            Ignored; scikit-learn passes it to every estimator.

        Returns
        -------
        WordVectors
            The estimator itself.

        """
        del y
        if self.dims < 1:
            raise SettingsError(f"dims must be >= 1; got {self.dims}.")
        moments = checked_moments(X, self.context) if isinstance(X, Moments) else self.count(X)
        weights = harmonic_weights(len(moments.offsets))
        ratios = positive_log_ratios(mixed_frequencies(moments, weights))
        assert moments.vocabulary is not None  # noqa: S101 - both ways here made sure
        self.vectors_ = spectral_vectors(ratios, self.dims, self.random_state)
        self.vocabulary_ = moments.vocabulary
        return self

    def count(self, text: Text) -> Moments:
        """Counts of a text, to `fit` or to keep.

        Parameters
        ----------
        text
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        Moments
            Counts of words and of pairs at each offset.

        """
        return counted(text, self.context, size=self.vocabulary_size, min_count=self.min_count)

    def _learned_parts(self) -> Parts:
        vectors = torch.from_numpy(self._vectors())
        return {"words": list(self._words().words)}, {"vectors": vectors}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.vocabulary_ = Vocabulary(texts(learned, "words"))
        self.vectors_ = np.asarray(tensors["vectors"].cpu())
        if len(self.vectors_) != len(self.vocabulary_):
            raise DataError("words and vectors differ in number")

    def _words(self) -> Vocabulary:
        found: Vocabulary = self._after_fit("vocabulary_")
        return found

    def _vectors(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._after_fit("vectors_")
        return found
