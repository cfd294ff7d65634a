"""What all labellers share: scores of labels, marginals by name, arguments checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError, SettingsError
from mrflearn.io.spans import tags_to_spans

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


def check_label(label: str | None, known: Collection[str]) -> None:
    """`SettingsError` where a label is named that the model has not."""
    if label is not None and label not in known:
        raise SettingsError(f"there is no label '{label}'; there are {', '.join(sorted(known))}.")


def chunk_f1(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """The harmonic mean of precision and recall over exact chunks."""
    right = total = 0
    for true, guess in zip(gold, found, strict=True):
        expected, given = set(tags_to_spans(true)), set(tags_to_spans(guess))
        right += len(expected & given)
        total += len(expected) + len(given)
    return 2 * right / total if total else 1.0


def accuracy(gold: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The share of tokens whose label is right; those of no known label, None, do not count."""
    if len(gold) != len(found):
        raise DataError(f"X has {len(found)} sequences and y has {len(gold)}.")
    right = total = 0
    for number, (true, guess) in enumerate(zip(gold, found, strict=True)):
        if len(true) != len(guess):
            raise DataError(f"sequence {number} has {len(guess)} items and {len(true)} labels.")
        known = [bool(a == b) for a, b in zip(true, guess, strict=True) if a is not None]
        right, total = right + sum(known), total + len(known)
    return right / total if total else 1.0


def marginal_dicts(
    tables: Iterable[NDArray[np.float64]], classes: Collection[str]
) -> list[list[dict[str, float]]]:
    """Tables of marginals, tokens x classes, as {class: probability} for each token."""
    return [[dict(zip(classes, row, strict=True)) for row in own.tolist()] for own in tables]
