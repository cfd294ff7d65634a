"""What every estimator shares: the way to disk and back, and what is said before `fit`."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, get_type_hints

from sklearn.base import BaseEstimator
from torch import Tensor

import mrflearn
from mrflearn.errors import MrflearnError, NotFittedError, StorageError
from mrflearn.models.storage import StoredModel, fits, read_model, write_model
from mrflearn.training.outcome import Outcome

Parts = tuple[dict[str, Any], dict[str, Tensor]]  # plain values, as JSON has them, and tensors
Criterion_co = TypeVar("Criterion_co", covariant=True, bound=str)
# What a damaged model may raise where it is read; RuntimeError: torch, of sizes that do not fit.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Choice(NamedTuple, Generic[Criterion_co]):
    """What `estimator="auto"` took, and one sentence on why."""

    estimator: Criterion_co
    reason: str


class Estimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """A scikit-learn estimator that can be saved and loaded."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a model directory, atomically.

        Parameters
        ----------
        path
            The directory to write.
        overwrite
            Whether to replace a model that is there already; anything else is never replaced.

        """
        learned, tensors = self._learned_parts()
        settings = self._stored_settings()
        stored = StoredModel(type(self).__name__, settings, tensors, learned)
        write_model(path, stored, overwrite=overwrite)

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
        read: list[str] = []
        learned, tensors = _Traced(stored.learned, read), _Traced(stored.tensors, read)
        part = "its settings"
        try:
            hints = _settings_of(cls)
            for name, value in stored.settings.items():
                if name in hints and not fits(value, hints[name]):
                    raise StorageError(f"the setting {name}={value!r:.80} is of the wrong kind")
            self = cls(**stored.settings)
            if "device" in stored.settings:
                self.set_params(device=device)
            part = "what it learned"
            self._restore(learned, tensors)
        except (*DAMAGE, MrflearnError) as error:
            where = f"{part} (at {read[-1]!r})" if read else part
            raise StorageError(
                f"the stored {cls.__name__} contradicts itself in {where}: {_in_words(error)}. "
                "Was it made by another version of mrflearn? Use that one, or train it again."
            ) from error
        return self

    @abstractmethod
    def _learned_parts(self) -> Parts:
        """All that `fit` made and answers need; `NotFittedError` before."""

    @abstractmethod
    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Becomes fitted by what `_learned_parts` gave."""

    def _training_parts(self) -> dict[str, Any]:
        """`outcome_` and `choice_` as plain values, where there are any."""
        outcome = self.outcome_.figures() if hasattr(self, "outcome_") else None
        choice = self.choice_._asdict() if hasattr(self, "choice_") else None
        return {"outcome": outcome, "choice": choice}

    def _restore_training(
        self, model: Any, learned: Mapping[str, Any], criteria: Collection[str] = ()
    ) -> None:
        """Sets `outcome_` (of that model) and `choice_` (one of the criteria) as stored."""
        if learned["outcome"] is not None:
            self.outcome_: Any = Outcome.from_figures(model, learned["outcome"])
        if learned["choice"] is not None:
            choice: Choice[Any] = Choice(**learned["choice"])
            if choice.estimator not in criteria or not isinstance(choice.reason, str):
                raise StorageError("the choice of an estimator does not say which and why")
            self._keep_choice(choice)

    def _keep_choice(self, choice: Choice[Any] | None) -> None:
        """Sets `choice_`, or removes that of an earlier fit where there was nothing to choose."""
        self.__dict__.pop("choice_", None)
        if choice is not None:
            self.choice_: Any = choice

    def _stored_settings(self) -> dict[str, Any]:
        """The settings, without those that no file can hold: they have their defaults again."""
        return dict(self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # sequences, texts or graphs
        return tags

    if not TYPE_CHECKING:  # type checkers go by what each class declares

        def __getattr__(self, name: str) -> Any:
            """`NotFittedError` for what `fit` or `load` would have made."""
            kind = type(self).__name__
            learned = not name.startswith("_") and name.endswith("_")
            if learned and not any(own.endswith("_") for own in vars(self)):
                raise NotFittedError(f"this {kind} is not fitted yet; call `fit`, or `load` one.")
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """The fitted estimator that was saved there, whichever class it is."""
    stored = read_model(path, device=device)
    # The package knows where each class lives, and imports only the one that is asked for.
    kind: Any = getattr(mrflearn, stored.kind) if stored.kind in mrflearn.__all__ else None
    if not hasattr(kind, "from_stored"):
        raise StorageError(f"{path} holds a '{stored.kind}', which this version does not know.")
    return kind.from_stored(stored, device=device)


class _Traced(dict[str, Any]):
    """A dictionary that adds the name of every entry that is read to a list."""

    def __init__(self, entries: Mapping[str, Any], read: list[str]) -> None:
        super().__init__(entries)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.append(name)
        return super().__getitem__(name)


def _in_words(error: Exception) -> str:
    """The problem in words, also where Python's own exceptions hold less than that."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    text = str(error).rstrip(".")
    return text if isinstance(error, MrflearnError) else f"{type(error).__name__}: {text}"


@cache
def _settings_of(kind: type[Estimator]) -> dict[str, Any]:
    """The kind of each setting; constructors may name what modules of their bases import."""
    names: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        names |= vars(sys.modules[base.__module__])
    return get_type_hints(kind.__init__, globalns=names)
