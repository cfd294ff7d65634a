"""What every front door shares: the way to disk and back, and what is said before `fit`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, Self

from sklearn.base import BaseEstimator
from torch import Tensor

from mrflearn.errors import MrflearnError, NotFittedError, StorageError
from mrflearn.models.storage import StoredModel, read_model, write_model

Parts = tuple[dict[str, Any], dict[str, Tensor]]  # plain values, as JSON has them, and tensors


class FrontDoor(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """A scikit-learn estimator that can be saved and loaded."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model directory, whole or not at all."""
        learned, tensors = self._learned_parts()
        settings = self._stored_settings()
        write_model(path, StoredModel(type(self).__name__, settings, tensors, learned))

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
    def from_stored(cls, stored: StoredModel, *, device: str = "cpu") -> Self:
        """The model that a stored model holds, on that device if its class works on devices."""
        try:
            self = cls(**stored.settings)
            if "device" in stored.settings:
                self.set_params(device=device)
            self._take_back(stored.learned, stored.tensors)
        except StorageError:
            raise
        except (LookupError, TypeError, ValueError, MrflearnError) as error:
            raise StorageError(
                f"the stored {cls.__name__} contradicts itself ({error}). Train the model again."
            ) from error
        return self

    @abstractmethod
    def _learned_parts(self) -> Parts:
        """All that `fit` made and answers need; `NotFittedError` before."""

    @abstractmethod
    def _take_back(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Becomes fitted by what `_learned_parts` gave."""

    def _stored_settings(self) -> dict[str, Any]:
        """The settings, without those that no file can hold: they have their defaults again."""
        return dict(self.get_params(deep=False))

    def _after_fit(self, name: str) -> Any:
        """The attribute that `fit` or `load` made; `NotFittedError` before."""
        value = getattr(self, name, None)
        if value is None:
            kind = type(self).__name__
            raise NotFittedError(f"this {kind} is not fitted yet; call `fit`, or `load` one.")
        return value
