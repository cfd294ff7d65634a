"""Whether probabilities mean what they say: of answers given with 0.8, do 8 in 10 hold?

[Guo et al. 2017, On calibration of modern neural networks]: the reliability table, the expected
calibration error (ECE, eq. 3) and the largest one (eq. 5).  `CRF.calibrate` mends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from mrflearn.errors import DataError


@dataclass(frozen=True, eq=False)
class Reliability:
    """Answers in bins of confidence: their `edges`, counts, mean confidences and accuracies."""

    edges: Float[np.ndarray, " k+1"]
    counts: Float[np.ndarray, " k"]
    confidence: Float[np.ndarray, " k"]  # means; not a number in an empty bin
    accuracy: Float[np.ndarray, " k"]

    @property
    def expected_error(self) -> float:
        """|accuracy - confidence|, bins weighted by their answers [Guo 2017, eq. 3]."""
        return float((self._gaps * self.counts).sum() / max(self.counts.sum(), 1))

    @property
    def largest_error(self) -> float:
        """|accuracy - confidence| of the worst bin [Guo 2017, eq. 5]."""
        return float(self._gaps.max(initial=0.0))

    def rows(self) -> list[tuple[str, int, float, float]]:
        """The bins that have answers: both edges, count, mean confidence, accuracy."""
        columns = self.edges[:-1], self.edges[1:], self.counts, self.confidence, self.accuracy
        return [
            (f"{low:.1f} - {high:.1f}", int(count), sure, right)
            for low, high, count, sure, right in zip(*(c.tolist() for c in columns), strict=True)
            if count
        ]

    @property
    def _gaps(self) -> Float[np.ndarray, " k"]:
        return np.asarray(np.abs(np.nan_to_num(self.accuracy - self.confidence)))


def reliability(
    confidence: ArrayLike, correct: ArrayLike, *, bins: int = 10, equal_counts: bool = False
) -> Reliability:
    """The table of answers given with some `confidence`, each `correct` or not.

    Bins have the same width, or with `equal_counts` (nearly) the same number of answers; a bin
    has its upper edge, not its lower.
    """
    sure = np.asarray(confidence, dtype=np.float64).ravel()
    right: Bool[np.ndarray, " n"] = np.asarray(correct, dtype=bool).ravel()
    if sure.shape != right.shape:
        raise DataError(f"{len(sure)} probabilities but {len(right)} answers to judge.")
    if bins < 1:
        raise DataError(f"a reliability table needs at least 1 bin, not {bins}.")
    if not bool(((sure >= 0.0) & (sure <= 1.0 + 1e-6)).all()):
        raise DataError("a probability is below 0, above 1 or not a number. Are they logarithms?")
    edges = np.linspace(0.0, 1.0, bins + 1)
    if equal_counts and len(sure):
        edges[1:-1] = np.quantile(sure, edges[1:-1])
    place = np.clip(np.searchsorted(edges[1:], sure, side="left"), 0, bins - 1)
    counts = np.bincount(place, minlength=bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = np.bincount(place, weights=sure, minlength=bins) / counts
        shares = np.bincount(place, weights=right, minlength=bins) / counts
    return Reliability(edges, counts, means, shares)


def token_reliability(
    marginals: Iterable[Sequence[Mapping[str, float]]], truth: Iterable[Sequence[str]]
) -> Reliability:
    """The table of the most probable label of each token, given the marginals of sentences."""
    sure: list[float] = []
    right: list[bool] = []
    for tokens, labels in zip(marginals, truth, strict=True):
        for token, label in zip(tokens, labels, strict=True):
            guess, probability = max(token.items(), key=itemgetter(1))
            sure.append(probability)
            right.append(guess == label)
    return reliability(sure, right)
