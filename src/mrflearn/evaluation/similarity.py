"""How well distances between word vectors agree with people: similarity, analogies, neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, to_number
from mrflearn.io.similarity import Analogy, WordPair, read_analogies, read_pairs

QUESTIONS_AT_A_TIME = 512


@dataclass(frozen=True)
class SimilarityScore:
    """Spearman's rank correlation, over those of the pairs whose words both have vectors."""

    spearman: float
    pairs: int
    of: int


@dataclass(frozen=True)
class AnalogyAccuracy:
    """How many of the answerable questions were answered right, of all there are."""

    accuracy: float
    answerable: int
    of: int


class CosineSpace:
    """Word vectors of length one; words are looked up as they are, then in lower case."""

    def __init__(self, words: Sequence[str], vectors: ArrayLike) -> None:
        values = np.asarray(vectors, dtype=np.float64)
        if values.ndim != 2 or len(values) != len(words):
            raise DataError(f"{len(words)} words, but vectors of shape {values.shape}.")
        self.words = tuple(words)
        self.places = {word: place for place, word in enumerate(self.words)}
        # A vector of zeros has no direction: it is equally far from everything.
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        self.vectors: NDArray[np.float64] = values / np.where(norms > 0, norms, 1)

    def find(self, word: str) -> int | None:
        """The place of a word, None where it has no vector."""
        return self.places.get(word, self.places.get(word.lower()))

    def neighbours(self, word: str, top: int = 10) -> list[tuple[str, float]]:
        """The nearest other words by cosine, nearest first."""
        place = self.find(word)
        if place is None:
            raise DataError(f"the word {word!r} has no vector. Is it written as in the text?")
        cosine = self.vectors @ self.vectors[place]
        cosine[place] = -np.inf
        best = np.argsort(-cosine, kind="stable")[: min(top, len(cosine) - 1)]
        return [(self.words[i], float(cosine[i])) for i in best]


def word_similarity(space: CosineSpace, pairs: Iterable[WordPair]) -> SimilarityScore:
    """Spearman's correlation of cosines and human scores; NaN for fewer than three pairs."""
    every = list(pairs)
    found = [(space.find(pair.first), space.find(pair.second), pair.score) for pair in every]
    kept = [(a, b, score) for a, b, score in found if a is not None and b is not None]
    if len(kept) < 3:
        return SimilarityScore(float("nan"), len(kept), len(every))
    first, second, scores = (np.array(column) for column in zip(*kept, strict=True))
    cosines = np.einsum("ij,ij->i", space.vectors[first], space.vectors[second])
    return SimilarityScore(spearman(cosines, scores), len(kept), len(every))


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Pearson's correlation of the ranks, equal values sharing theirs; NaN for constants."""
    if np.ptp(left) == 0 or np.ptp(right) == 0:  # of which scipy warns
        return float("nan")
    return float(spearmanr(left, right).statistic)


def analogies(space: CosineSpace, questions: Iterable[Analogy]) -> AnalogyAccuracy:
    """Questions answered by the word nearest to second - first + third, these three left out."""
    every = list(questions)
    places = [[space.find(word) for word in (q.first, q.second, q.third, q.answer)] for q in every]
    asked = np.array([row for row in places if None not in row], dtype=np.int64).reshape(-1, 4)
    right = 0
    for start in range(0, len(asked), QUESTIONS_AT_A_TIME):
        some = asked[start : start + QUESTIONS_AT_A_TIME]
        first, second, third = (space.vectors[some[:, k]] for k in range(3))
        cosine = (second - first + third) @ space.vectors.T
        np.put_along_axis(cosine, some[:, :3], -np.inf, axis=1)
        right += int((cosine.argmax(axis=1) == some[:, 3]).sum())
    accuracy = right / len(asked) if len(asked) else float("nan")
    return AnalogyAccuracy(accuracy, len(asked), len(every))


def judge(space: CosineSpace, path: PathLike) -> SimilarityScore | AnalogyAccuracy:
    """The agreement with people's scores of pairs, or the analogies answered right: of a file."""
    with Lines(path) as lines:
        first = next(filter(None, map(str.split, lines)), [])
    if first[:1] == [":"] or (len(first) == 4 and math.isnan(to_number(first[2]))):
        right = analogies(space, read_analogies(path))
        if not right.answerable:
            raise DataError(f"none of {right.of} questions has all its words in the vocabulary.")
        return right
    found = word_similarity(space, read_pairs(path))
    if found.pairs < 3:
        raise DataError(
            f"{found.pairs} of {found.of} pairs have both words in the vocabulary; a correlation "
            "needs three."
        )
    return found
