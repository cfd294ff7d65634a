"""Which words have similar vectors, asked of any model that has them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.estimators.base import Estimator
from mrflearn.execution.executor import Executor, Serial
from mrflearn.features.moments import Moments
from mrflearn.features.text_shards import count_text_shards
from mrflearn.io.files import PathLike
from mrflearn.io.vectors import NamedVectors, write_vectors
from mrflearn.io.vocabulary import SEPARATOR, UNKNOWN, Vocabulary


@final
@dataclass(frozen=True, eq=False)
class NearestWords:
    """Words and their vectors, compared by the cosine of their angle."""

    vocabulary: Vocabulary
    unit: NDArray[np.float32]

    @classmethod
    def of(cls, vocabulary: Vocabulary, vectors: NDArray[np.float32]) -> NearestWords:
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
        return cls(vocabulary, vectors / np.maximum(sizes, np.finfo(np.float32).tiny))

    def to_word(self, word: str, n: int) -> list[tuple[str, float]]:
        """The nearest other words, each with its cosine."""
        return self._nearest(self._vector(word), [word], n)

    def analogy(self, first: str, second: str, third: str, n: int) -> list[tuple[str, float]]:
        """The words nearest to `second - first + third`."""
        a, b, c = (self._vector(word) for word in (first, second, third))
        return self._nearest(b - a + c, [first, second, third], n)

    def _vector(self, word: str) -> NDArray[np.float32]:
        if word not in self.vocabulary:
            raise DataError(f"the word {word!r} is not in the vocabulary of this model.")
        vector: NDArray[np.float32] = self.unit[int(self.vocabulary.encode([word])[0])]
        return vector

    def _nearest(
        self, target: NDArray[np.float32], without: Sequence[str], n: int
    ) -> list[tuple[str, float]]:
        cosine = self.unit @ (target / max(float(np.linalg.norm(target)), 1e-30))
        words = self.vocabulary.words
        order = (int(index) for index in np.argsort(-cosine, kind="stable"))
        allowed = [i for i in order if words[i] not in without and i != self.vocabulary.separator]
        return [(words[index], float(cosine[index])) for index in allowed[:n]]


class WordSpace(Estimator):
    """A model with a vector for every word of its vocabulary, learned from counts of pairs."""

    context: int
    min_count: int
    vocabulary_size: int | None

    def count_shards(self, paths: Sequence[PathLike], executor: Executor | None = None) -> Moments:
        """Counts of text files, to `fit`.

        Parameters
        ----------
        paths
            Text files with one sentence per line.
        executor
            Where files are counted; None counts them in this process.

        Returns
        -------
        Moments
            The counts of all files together.

        """
        return count_text_shards(
            paths,
            Serial() if executor is None else executor,
            context=self.context,
            size=self.vocabulary_size,
            min_count=self.min_count,
        )

    @abstractmethod
    def _words(self) -> Vocabulary:
        """The vocabulary; `NotFittedError` before `fit`."""

    @abstractmethod
    def _vectors(self) -> NDArray[np.float32]:
        """The vector of each word, in the order of the vocabulary; `NotFittedError` before."""

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
        words = (word for word in self._words().words if word not in (SEPARATOR, UNKNOWN))
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
        return NearestWords.of(self._words(), self._vectors()).to_word(word, n)

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
        return NearestWords.of(self._words(), self._vectors()).analogy(first, second, third, n)

    def export(self, path: PathLike) -> None:
        """Writes the vectors of words, not of `<S>`, in the text format of word2vec.

        Parameters
        ----------
        path
            The file to write, compressed if its name ends in .gz.

        """
        if str(path).removesuffix(".gz").endswith(".arpa"):
            raise DataError("word vectors are no ARPA file; choose a name in .txt.", path=path)
        words, edge = self._words().words, self._words().separator
        kept = [index for index in range(len(words)) if index != edge]
        write_vectors(path, NamedVectors(tuple(words[i] for i in kept), self._vectors()[kept]))
