"""Word vectors: closed-form training, neighbours, analogies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.features.log_ratios import (
    harmonic_weights,
    mixed_frequencies,
    positive_log_ratios,
    spectral_vectors,
)
from mrflearn.features.moments import Moments, count_text_shards, moments_of
from mrflearn.io.corpus import SEPARATOR, UNKNOWN, Text, Vocabulary
from mrflearn.io.files import PathLike
from mrflearn.io.vectors import NamedVectors, write_vectors
from mrflearn.models.storage import texts

# Which words have similar vectors, asked of any model that has them.


class WordSpace(Estimator):
    """A model with a vector for every word of its vocabulary, learned from counts of pairs."""

    context: int
    min_count: int
    vocabulary_size: int | None
    triples: bool = False  # whether three words in a row are counted, too
    vocabulary_: Vocabulary
    vectors_: NDArray[np.float32]  # of each word, in the order of the vocabulary

    def count_shards(
        self, paths: Sequence[PathLike] | Held[Text], executor: Executor | None = None
    ) -> Moments:
        """Counts of text files, to `fit`.

        Parameters
        ----------
        paths
            Text files with one sentence per line; or texts that an executor holds.
        executor
            Where files are counted; None counts them in this process.

        Returns
        -------
        Moments
            The counts of all files together.

        """
        return count_text_shards(
            paths,
            executor,
            context=self.context,
            vocabulary_size=self.vocabulary_size,
            min_count=self.min_count,
            triples=self.triples,
        )

    def _moments(self, text: Text | Moments, known: Vocabulary | None = None) -> Moments:
        """Counts of a text over a known vocabulary, or its own; given counts, if they fit."""
        size, least, triples = self.vocabulary_size, self.min_count, self.triples
        return moments_of(
            text, self.context, known, vocabulary_size=size, min_count=least, triples=triples
        )

    def frequent_words(self, n: int) -> list[str]:
        """The most frequent words.

        Parameters
        ----------
        n
            How many words to return.

        Returns
        -------
        list of str
            The most frequent first, without `<S>` and `<unk>`.

        """
        words = (word for word in self.vocabulary_.words if word not in (SEPARATOR, UNKNOWN))
        return list(islice(words, n))

    def neighbors(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """The words with the nearest vectors.

        Parameters
        ----------
        word
            A word of the vocabulary.
        n
            How many words to return.

        Returns
        -------
        list of (word, cosine)
            Other words by the cosine of their vectors' angle, the nearest first.

        """
        unit = self._unit_vectors()
        return self._nearest(unit, unit[self._place(word)], [word], n)

    def analogy(self, first: str, second: str, third: str, n: int = 10) -> list[tuple[str, float]]:
        """Words that are to `third` as `second` is to `first`.

        Parameters
        ----------
        first, second, third
            Words of the vocabulary.
        n
            How many words to return.

        Returns
        -------
        list of (word, cosine)
            The words nearest to `second - first + third`, without these three.

        """
        unit = self._unit_vectors()
        a, b, c = (unit[self._place(word)] for word in (first, second, third))
        return self._nearest(unit, b - a + c, [first, second, third], n)

    def _unit_vectors(self) -> NDArray[np.float32]:
        vectors = self.vectors_
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = vectors / np.maximum(sizes, np.finfo(np.float32).tiny)
        return unit

    def _place(self, word: str) -> int:
        if word not in self.vocabulary_:
            raise DataError(f"the word {word!r} is not in the vocabulary of this model.")
        return int(self.vocabulary_.encode([word])[0])

    def _nearest(
        self, unit: NDArray[np.float32], target: NDArray[np.float32], without: Sequence[str], n: int
    ) -> list[tuple[str, float]]:
        """The words of largest cosine with a vector, each with its cosine."""
        cosine = unit @ (target / max(float(np.linalg.norm(target)), 1e-30))
        words, edge = self.vocabulary_.words, self.vocabulary_.separator
        order = (int(index) for index in np.argsort(-cosine, kind="stable"))
        allowed = [i for i in order if words[i] not in without and i != edge]
        return [(words[index], float(cosine[index])) for index in allowed[:n]]

    def export(self, path: PathLike) -> None:
        """Writes the vectors of words, not of `<S>`, in the text format of word2vec.

        Parameters
        ----------
        path
            The file to write, compressed if its name ends in .gz.

        """
        if str(path).removesuffix(".gz").endswith(".arpa"):
            raise DataError("word vectors are no ARPA file; choose a name in .txt.", path=path)
        words, edge = self.vocabulary_.words, self.vocabulary_.separator
        kept = [index for index in range(len(words)) if index != edge]
        write_vectors(path, NamedVectors(tuple(words[i] for i in kept), self.vectors_[kept]))


# `WordVectors`: vectors of words from pair counts, in seconds and without training.


@dataclass(kw_only=True, eq=False, repr=False)
class WordVectors(WordSpace):
    """Word vectors in closed form: words that occur near the same words are similar.

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

    dims: int = field(default=100, kw_only=False)
    context: int = field(default=8, kw_only=False)
    min_count: int = 1
    vocabulary_size: int | None = None
    random_state: int = 0

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
        moments = self._moments(X)
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
        return self._moments(text)

    def _learned_parts(self) -> Parts:
        vectors = torch.from_numpy(self.vectors_)
        return {"words": list(self.vocabulary_.words)}, {"vectors": vectors}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.vocabulary_ = Vocabulary(texts(learned, "words"))
        self.vectors_ = np.asarray(tensors["vectors"].cpu())
        if len(self.vectors_) != len(self.vocabulary_):
            raise DataError("words and vectors differ in number")
