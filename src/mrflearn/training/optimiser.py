"""What every optimiser offers: a state that can begin, advance, be stored and be restored."""

from __future__ import annotations

from typing import Protocol, TypeVar

from jaxtyping import Float
from torch import Tensor

from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem
from mrflearn.training.stopping import StopRule


class State(Protocol):
    """Where an optimisation stands between two iterations; all its memory is here."""

    vector: Float[Tensor, "p"]
    iteration: int
    value: float  # NaN where nothing has been evaluated yet
    gradient_norm: float
    size: float  # the Euclidean norm of the vector
    step: float
    since: int  # the iteration that this descent began with; earlier values are of another

    @property
    def noise(self) -> float:
        """By how much `value` may be off."""

    @property
    def answer(self) -> Float[Tensor, "p"]:
        """The vector to hand out: the current one, or an average."""

    @property
    def exact(self) -> bool:
        """Whether `value` belongs to `answer`, rather than to vectors on the way to it."""

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, for a checkpoint."""


S = TypeVar("S")


class Optimiser(Protocol[S]):
    """Frozen settings, and how a state moves under them."""

    @property
    def rule(self) -> StopRule: ...

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> S:
        """The state at the starting point."""

    def advance(self, problem: Problem, state: S) -> Verdict | None:
        """Moves the state by one iteration; gives a verdict instead where it cannot.

        `Halt`, raised by an evaluation, leaves a state from which the same iteration can be done.
        """

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> S:
        """The state that gave these tensors, on the device of `like`."""
