"""What users hand to a chain CRF, as features and labels by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mrflearn.errors import DataError
from mrflearn.features.compiled import CompiledFeatures, compile_features
from mrflearn.features.features import Numbering
from mrflearn.features.labels import CompiledLabels, compile_labels
from mrflearn.io.crfsuite_text import AttributeSequence


def compiled(
    X: Any, y: Iterable[Any] | None, known: Iterable[str] = ()
) -> tuple[CompiledFeatures, CompiledLabels]:
    """Features and labels by number; without y, X yields sequences that hold their labels."""
    if y is None:
        y = []
        X = _split(X, y)
    features = X if isinstance(X, CompiledFeatures) else compile_features(X)
    labels = compile_labels(y, features.lengths, Numbering(known))
    if not len(labels.names):
        raise DataError("there is nothing to learn from: no sequence has a label.")
    return features, labels


def _split(sequences: Iterable[Any], labels: list[Any]) -> Iterator[Any]:
    for number, sequence in enumerate(sequences):
        if not isinstance(sequence, AttributeSequence):
            raise DataError(
                f"y is missing, and sequence {number} has no labels of its own "
                f"(it is a {type(sequence).__name__}): fit(X, y)."
            )
        labels.append(sequence.labels)
        yield sequence.features
