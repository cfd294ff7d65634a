"""The state that L-BFGS and OWL-QN share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.training.memory import Memory, Numbers
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem, check_start

# Values that differ by fewer roundings than this count as equal in a line search.
NOISE_ROUNDINGS = 16


@final
@dataclass(eq=False)
class QuasiNewtonState:
    """The iterate, its gradient, the vector to descend along, the memory, and a trial point.

    The vector to descend along is the gradient itself or, with L1, the pseudo-gradient.
    """

    vector: Float[Tensor, "p"]
    gradient: Float[Tensor, "p"]
    steepest: Float[Tensor, "p"]
    memory: Memory
    trial: Float[Tensor, "p"]
    value: float
    gradient_norm: float
    size: float
    step: float = 0.0
    iteration: int = 0
    exact: bool = True

    @classmethod
    def at(
        cls,
        problem: Problem,
        start: Tensor,
        history: int,
        value: Tensor,
        gradient: Tensor,
        steepest: Tensor,
    ) -> Self:
        """The state at the starting point, where value and gradients have these values."""
        numbers = torch.stack((value, start.dot(start).double(), steepest.dot(steepest).double()))
        first, size, square = numbers.tolist()
        check_start(problem, first, gradient)
        memory = Memory(history, start)
        memory.square = square
        norms = (math.sqrt(square), math.sqrt(size))
        trial = torch.empty_like(start)
        return cls(start.clone(), gradient, steepest, memory, trial, first, *norms)

    @property
    def answer(self) -> Float[Tensor, "p"]:
        return self.vector

    @property
    def noise(self) -> float:
        """How far apart two values must be to count as different."""
        return NOISE_ROUNDINGS * torch.finfo(self.vector.dtype).eps * abs(self.value)

    @property
    def first_step(self) -> float:
        """The step length to try first along the current direction."""
        if self.memory.count:
            return 1.0
        return self.memory.scale or min(1.0, 1.0 / self.gradient_norm)

    def arrive(self, step: float, length: float, numbers: Numbers) -> None:
        """Makes the trial point, probed last, the current one, but for the gradient.

        `step` is what to report, `length` the factor on the direction in the memory, and `numbers`
        are value, squared norm of the trial point, and what the memory measured there.
        """
        plain = self.steepest is self.gradient
        self.memory.accept(numbers[2:], length, steepest_is_gradient=plain)
        self.vector, self.trial = self.trial, self.vector
        self.steepest.copy_(self.memory.steepest)
        self.value, self.step, self.size = float(numbers[0]), step, math.sqrt(numbers[1])
        self.gradient_norm = math.sqrt(self.memory.square)
        self.iteration += 1

    def no_way_down(self) -> Verdict:
        """What it means that no step along the negative gradient lowers the value."""
        gain = 0.5 * (self.memory.scale or self.first_step) * self.gradient_norm**2
        if gain <= 64 * self.noise:
            kind = str(self.vector.dtype).removeprefix("torch.")
            return Verdict(
                "value",
                f"the value no longer falls: what is left to gain (about {gain:.1e}) is lost in "
                f"the rounding of {kind}.",
            )
        return Verdict(
            "stuck",
            "no step against the gradient lowers the value, though the gradient has norm "
            f"{self.gradient_norm:.1e}: it may not be the gradient of this value (compare it with "
            "finite differences), or the value has a corner here, or more noise than its type.",
        )

    def tensors(self) -> dict[str, Tensor]:
        numbers = [self.value, self.gradient_norm, self.size, self.step, float(self.iteration)]
        own = {"numbers": torch.tensor(numbers, dtype=torch.float64), "vector": self.vector}
        own |= {"gradient": self.gradient}
        if self.steepest is not self.gradient:
            own |= {"steepest": self.steepest}
        return own | self.memory.tensors()

    @classmethod
    def restore(cls, history: int, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> Self:
        """The state that gave these tensors, on the device of `like`."""
        vector, gradient = (tensors[name].to(like.device) for name in ("vector", "gradient"))
        steepest = tensors["steepest"].to(like.device) if "steepest" in tensors else gradient
        memory = Memory(history, like)
        memory.restore(tensors)
        value, norm, size, step, iteration = tensors["numbers"].tolist()
        numbers = (value, norm, size, step, int(iteration))
        return cls(vector, gradient, steepest, memory, torch.empty_like(like), *numbers)
