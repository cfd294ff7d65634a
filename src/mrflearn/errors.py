"""Every exception this library raises on purpose, on one page.

Each message says what was seen, what it may mean, and what to try.  The command line turns any
`MrflearnError` into one line on standard error and exit code 1.
"""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn._not_fitted import NotFittedError as NotFittedError

# It is scikit-learn's error too, which is imported with the first estimator.
__getattr__, __dir__ = lazy(__name__)


class MrflearnError(Exception):
    """The root: catch this to catch everything the library raises on purpose."""


class DataError(MrflearnError, ValueError):
    """A file or a record is not what it should be; the text starts with `path:line: ` if known."""

    def __init__(self, problem: str, *, path: object = None, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path
        self.line = line

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return self.problem if self.path is None else f"{self.path}{line}: {self.problem}"

    def locate(self, path: object, line: int | None = None) -> None:
        """Adds where the problem was found, unless that is known already."""
        if self.path is None:
            self.path, self.line = path, line if self.line is None else self.line

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword arguments are lost by Exception's own pickling, and workers send errors back.
        return partial(type(self), path=self.path, line=self.line), (self.problem,)


class SettingsError(MrflearnError, ValueError):
    """An argument has a value that cannot be worked with; the text says which, and what can."""


class GraphError(MrflearnError, ValueError):
    """A factor graph contradicts itself, or tables do not fit the graph they are assigned to."""


class InferenceError(MrflearnError, RuntimeError):
    """An inference refuses the graph it was given, or found no answer."""


class TrainingError(MrflearnError, RuntimeError):
    """Training cannot go on: a value is not a number, or a checkpoint does not fit."""


class ExecutionError(MrflearnError, RuntimeError):
    """Work could not be done where it was sent: a worker died, or no cluster answers."""


class StorageError(MrflearnError, ValueError):
    """A saved model is truncated, foreign, or of a version this library does not read."""


class OutOfMemoryError(MrflearnError, MemoryError):
    """More memory would be needed than there is; the text says how much, and what to try."""


class MissingExtraError(MrflearnError, ImportError):
    """An optional package is needed; the text names the extra to install."""


class MrflearnWarning(UserWarning):
    """The root of all warnings: something was done that the user may not have meant."""


class DataWarning(MrflearnWarning):
    """What the owner of some data should know: values were recoded, or rows were left out.

    The command line writes it as one line on standard error.
    """


class TrainingWarning(MrflearnWarning):
    """Training ended far from an optimum."""


class AccuracyWarning(MrflearnWarning):
    """An estimate is less certain than asked for; the text says how uncertain, and what to try."""


def warn_user(message: str, category: type[MrflearnWarning] = DataWarning) -> None:
    """Warns at the line that called this library, however deep inside it the reason was found."""
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("mrflearn", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
