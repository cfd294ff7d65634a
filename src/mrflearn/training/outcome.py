"""The records of a training: what is seen at each iteration, and what comes back at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import StorageError

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)

Ending = Literal["gradient", "value", "limit", "callback", "interrupted", "stuck"]


class Verdict(NamedTuple):
    """Why a training ends: one word for programs, one sentence for people."""

    ending: Ending
    reason: str


class Row(NamedTuple):
    """One line of the history.  `step` is the step length, or the learning rate."""

    iteration: int
    value: float
    gradient_norm: float
    step: float
    evaluations: int
    seconds: float
    validation: float | None = None

    @classmethod
    def of(cls, numbers: Sequence[Any]) -> Row:
        """The row whose entries were stored as these; no validation is None or NaN."""
        iteration, value, norm, step, evaluations, seconds, validation = map(_number, numbers)
        score = None if math.isnan(validation) else validation
        return cls(int(iteration), value, norm, step, int(evaluations), seconds, score)


@dataclass(frozen=True, eq=False)
class Step(Generic[M_co]):
    """What callbacks see after each iteration.

    `vector` and the parameters of `model` (under `minimise` the vector itself) lie in buffers that
    training writes again later: clone what is to be kept.
    """

    iteration: int
    value: float
    gradient_norm: float
    step: float
    evaluations: int
    seconds: float
    vector: Float[Tensor, " p"]
    model: M_co


@dataclass(frozen=True, eq=False)
class Outcome(Generic[M_co]):
    """A fitted model (under `minimise`, a vector), the penalised value there, and how it ended.

    `evaluations` counts passes over all batches.  `ending` is "gradient" or "value" where an
    optimum was found as asked, else "limit", "callback", "interrupted" or "stuck".
    """

    model: M_co
    value: float
    iterations: int
    evaluations: int
    ending: Ending
    reason: str
    history: tuple[Row, ...]
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether training ended because there was nothing more to gain."""
        return self.ending in ("gradient", "value")

    @property
    def failed(self) -> bool:
        """Whether training ended far from an optimum because it could not go on."""
        return self.ending == "stuck"

    def figures(self) -> dict[str, Any]:
        """How training went, as plain values: all but the model; None stands for nan and inf."""
        names = ("value", "iterations", "evaluations", "ending", "reason", "seconds")
        history = [[_finite(entry) for entry in row] for row in self.history]
        return {name: _finite(getattr(self, name)) for name in names} | {"history": history}

    @staticmethod
    def from_figures(model: M, figures: Mapping[str, Any]) -> Outcome[M]:
        """The outcome of that model whose `figures` these are."""
        ending, reason = figures["ending"], figures["reason"]
        if ending not in get_args(Ending) or not isinstance(reason, str):
            raise StorageError("the outcome of training does not say how it ended")
        return Outcome(
            model,
            _number(figures["value"]),
            int(_number(figures["iterations"])),
            int(_number(figures["evaluations"])),
            ending,
            reason,
            tuple(map(Row.of, figures["history"])),
            _number(figures["seconds"]),
        )


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(stored: Any) -> float:
    if stored is None:
        return math.nan
    if not isinstance(stored, int | float):
        raise StorageError("the outcome of training should be numbers")
    return float(stored)
