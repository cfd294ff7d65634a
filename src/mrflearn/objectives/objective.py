"""The contract of training: functions of one flat vector that say how far to trust their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """An objective at one vector.

    `noise` is by how much the value may be off beside the rounding of the vector's type, for
    instance because an iteration inside the objective was stopped at a tolerance.
    """

    value: Float[Tensor, ""]
    gradient: Float[Tensor, " p"]
    noise: Float[Tensor, ""] | float = 0.0


@runtime_checkable
class Objective(Protocol):
    """A function to minimise that starts each evaluation from what an accepted one left.

    Messages of belief propagation and Perron vectors are such warm starts.  Until `commit` the
    same vector gets the same answer, whatever was evaluated in between.
    """

    def __call__(self, vector: Float[Tensor, " p"], /) -> Evaluation: ...

    @property
    def branches(self) -> bool:
        """Whether the value may leap from one branch of solutions to another."""

    def commit(self) -> None:
        """Keep the warm start of the last evaluation: its vector was accepted."""

    def state(self) -> dict[str, Tensor]:
        """The committed warm start, for a checkpoint."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""


# A function without a warm start may be given as a plain function: value and gradient.
ValueAndGradient: TypeAlias = Callable[[Tensor], tuple[Tensor | float, Tensor] | Evaluation]


def evaluate(function: ValueAndGradient, vector: Float[Tensor, " p"]) -> Evaluation:
    """What a function answers, as one record with a tensor for its value."""
    found = function(vector)
    if not isinstance(found, Evaluation):
        value, gradient = found
        value = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        found = Evaluation(value, gradient)
    return found


class Loss(Protocol):
    """A number to minimise, differentiable in the model's parameters.

    It is in nats and summed over the examples of the batch, so that the values of several batches
    add up to the value of them all.  It holds no penalty: training adds that once.
    """

    def __call__(self, model: Any, batch: Any, /) -> Float[Tensor, ""]: ...
