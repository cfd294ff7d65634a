"""What every front door shares: the way back from disk, and what is said before `fit`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, Self

from sklearn.base import BaseEstimator

from mrflearn.errors import NotFittedError, StorageError
from mrflearn.models.storage import StoredModel, read_model


class FrontDoor(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """A scikit-learn estimator that can be saved and loaded."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model directory, whole or not at all."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "cpu") -> Self:
        """The model that `save` wrote."""
        stored = read_model(path, device=device)
        if stored.kind != cls.__name__:
            raise StorageError(
                f"{path} holds a {stored.kind}, not a {cls.__name__}; `mrflearn.load` opens both."
            )
        return cls.from_stored(stored, device=device)

    @classmethod
    @abstractmethod
    def from_stored(cls, stored: StoredModel, *, device: str = "cpu") -> Self:
        """The model that a stored model holds."""

    def _after_fit(self, name: str) -> Any:
        """The attribute that `fit` or `load` made; `NotFittedError` before."""
        value = getattr(self, name, None)
        if value is None:
            kind = type(self).__name__
            raise NotFittedError(f"this {kind} is not fitted yet; call `fit`, or `load` one.")
        return value
