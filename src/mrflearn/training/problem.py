"""The number to make small, as a function of one flat vector: batches and penalty summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout
from mrflearn.objectives.penalties import LaidPenalty
from mrflearn.training.outcome import Verdict

ValueAndGradient = Callable[[Tensor], tuple[Tensor | float, Tensor]]


class Halt(Exception):  # noqa: N818 - not an error: training ends here on purpose
    """Ends training before the next evaluation; the optimiser's state stays as it was."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


@runtime_checkable
class Remembering(Protocol):
    """A function that begins an evaluation with what an earlier one left, as messages are."""

    def __call__(self, vector: Tensor, /) -> tuple[Tensor | float, Tensor]:
        """The value and the gradient there."""

    @property
    def branches(self) -> bool:
        """Whether its value may depend on what it began with."""

    def stay(self) -> None:
        """From now on evaluations begin with what the last one left."""


def never() -> None:
    """Lets every evaluation go ahead."""


@final
@dataclass
class Problem:
    """Functions that sum to the objective, the penalty on it, and a count of evaluations.

    `before` is called ahead of each function and may raise `Halt`.
    """

    functions: Sequence[ValueAndGradient]
    penalty: LaidPenalty
    layout: Layout
    seed: int = 0
    evaluations: int = 0
    before: Callable[[], None] = field(default=never)

    def total(self, vector: Float[Tensor, "p"]) -> tuple[Float[Tensor, ""], Float[Tensor, "p"]]:
        """The whole value (a sum: in float64) without L1, and its gradient.

        The gradient may lie in a buffer that a function writes again: copy it to keep it.
        """
        value, gradient = self._evaluate(0, vector)
        if len(self.functions) > 1:
            value, gradient = value.double(), gradient.clone()
        for index in range(1, len(self.functions)):
            more, slope = self._evaluate(index, vector)
            value = value + more
            gradient.add_(slope)
        self.evaluations += 1
        if self.penalty.has_l2:
            value = value + self.penalty.smooth(vector)
            gradient = self.penalty.smooth_gradient(vector, gradient)
        return value, gradient

    @property
    def branches(self) -> bool:
        """Whether the value may depend on where training has been."""
        return any(own.branches for own in self._remembering)

    def stay(self) -> None:
        """Tells functions with a memory that training stands where it evaluated last."""
        for own in self._remembering:
            own.stay()

    @property
    def _remembering(self) -> list[Remembering]:
        functions: Sequence[object] = self.functions
        return [own for own in functions if isinstance(own, Remembering)]

    def part(
        self, index: int, vector: Float[Tensor, "p"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "p"]]:
        """The value and gradient of one function and of its equal share of L2."""
        value, gradient = self._evaluate(index, vector)
        if self.penalty.has_l2:
            share = 1 / len(self.functions)
            value = value + share * self.penalty.smooth(vector)
            gradient = self.penalty.smooth_gradient(vector, gradient, share)
        return value, gradient

    def _evaluate(self, index: int, vector: Tensor) -> tuple[Tensor, Tensor]:
        self.before()
        value, gradient = self.functions[index](vector)
        if not isinstance(value, Tensor):
            value = torch.tensor(value, dtype=torch.float64)
        if gradient.shape != vector.shape or gradient.dtype != vector.dtype or value.numel() != 1:
            raise TrainingError(
                f"batch {index}: the value has shape {tuple(value.shape)} and the gradient is "
                f"{gradient.dtype} of shape {tuple(gradient.shape)}; one number and "
                f"{vector.dtype} of shape {tuple(vector.shape)} are needed."
            )
        return value.detach().to(vector.device).reshape(()), gradient.detach()


def check_start(problem: Problem, value: float, gradient: Float[Tensor, "p"]) -> None:
    """Raises `TrainingError` where training cannot begin, naming the parameter at fault."""
    if value != value or value in (float("inf"), float("-inf")):
        raise TrainingError(
            f"the value at the starting point is {value}. A datum may be impossible under the "
            "starting parameters, or scores may overflow: try smaller starting parameters."
        )
    wrong = ~gradient.isfinite()
    if bool(wrong.any()):
        index = int(wrong.int().argmax())
        raise TrainingError(
            f"the value at the starting point is {value:g}, but its gradient at parameter "
            f"{problem.layout.place(index)} is {float(gradient[index])} "
            f"({int(wrong.sum())} such entries). Does a score of -inf meet a weight there?"
        )
