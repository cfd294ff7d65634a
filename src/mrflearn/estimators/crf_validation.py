"""How good a chain CRF is on held-out sequences while it trains: chunk F1, or accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.crf_answers import best_labels
from mrflearn.features.features import CompiledFeatures, compile_features
from mrflearn.features.support import Support
from mrflearn.io.spans import are_chunk_tags, tags_to_spans
from mrflearn.models.chain_crf import ChainCRF

HeldOut = tuple[Iterable[Any], Iterable[Any]]


def pair_of(validation: Any) -> HeldOut:
    """The X and y of `validation=(X, y)`."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise SettingsError(f"validation must be a pair (X, y); got {type(validation).__name__}.")
    return validation[0], validation[1]


def check_n(n: int) -> None:
    """`SettingsError` where somebody asks for no result at all."""
    if n < 1:
        raise SettingsError(f"n must be >= 1; got {n}.")


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out sequences, compiled once; `chunks`: the score is F1 over chunks, not accuracy."""

    features: CompiledFeatures
    labels: Sequence[Sequence[str]]
    chunks: bool

    @classmethod
    def of(cls, X: Iterable[Any], y: Iterable[Sequence[str]], support: Support) -> Validation:
        features = compile_features(X, support.attributes, support.columns)
        labels = [list(own) for own in y]
        lengths = features.lengths.tolist()
        if [len(own) for own in labels] != lengths:
            raise DataError(
                "X and y of the validation set differ in their sequences' number or lengths."
            )
        return cls(features, labels, are_chunk_tags(support.labels))

    @torch.no_grad()
    def __call__(self, model: ChainCRF) -> float:
        """The score of a model, between 0 and 1."""
        labels, parts = list(model.support.labels), model.parts(self.features)
        found = [own for part in parts for own in best_labels(model.chains(part), labels)]
        if self.chunks:
            return chunk_f1(self.labels, found)
        return accuracy(self.labels, found)


def chunk_f1(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """The harmonic mean of precision and recall over exact chunks."""
    right = total = 0
    for true, guess in zip(gold, found, strict=True):
        expected, given = set(tags_to_spans(true)), set(tags_to_spans(guess))
        right += len(expected & given)
        total += len(expected) + len(given)
    return 2 * right / total if total else 1.0


def accuracy(gold: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The share of tokens whose label is right."""
    right = total = 0
    for number, (true, guess) in enumerate(zip(gold, found, strict=True)):
        if len(true) != len(guess):
            raise DataError(f"sequence {number} has {len(guess)} items and {len(true)} labels.")
        right += sum(bool(a == b) for a, b in zip(true, guess, strict=True))
        total += len(true)
    return right / total if total else 1.0


def marginal_dicts(
    tables: Iterable[NDArray[np.float64]], classes: Sequence[str]
) -> list[list[dict[str, float]]]:
    """Tables of marginals, tokens x classes, as {class: probability} for each token."""
    return [[dict(zip(classes, row, strict=True)) for row in own.tolist()] for own in tables]
