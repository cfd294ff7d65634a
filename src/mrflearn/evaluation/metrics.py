"""Scores of all tokens at once, as scikit-learn counts them, by the names of sklearn-crfsuite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import Any

from sklearn import metrics

from mrflearn.evaluation.chunks import paired

Labels = Iterable[Sequence[str]]


def _flat(score: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(score)
    def of_sequences(y_true: Labels, y_pred: Labels, *args: Any, **more: Any) -> Any:
        pairs = list(paired(y_true, y_pred))
        flat = (list(chain.from_iterable(pair[side] for pair in pairs)) for side in (0, 1))
        return score(*flat, *args, **more)

    return of_sequences


flat_accuracy_score = _flat(metrics.accuracy_score)
flat_precision_score = _flat(metrics.precision_score)
flat_recall_score = _flat(metrics.recall_score)
flat_f1_score = _flat(metrics.f1_score)
flat_fbeta_score = _flat(metrics.fbeta_score)
flat_classification_report = _flat(metrics.classification_report)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """The share of sequences whose labels are all right; 0 of none."""
    right = [true == found for true, found in paired(y_true, y_pred)]
    return sum(right) / len(right) if right else 0.0


def flat_accuracy(estimator: Any, X: Any, y: Labels) -> float:
    """The share of tokens whose label is right; for `scoring=` of scikit-learn's searches."""
    return float(flat_accuracy_score(y, estimator.predict(X)))


def sequence_accuracy(estimator: Any, X: Any, y: Labels) -> float:
    """The share of sequences that are right; for `scoring=` of scikit-learn's searches."""
    return sequence_accuracy_score(y, estimator.predict(X))
