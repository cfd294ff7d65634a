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
    """The iterate, the memory with the vector to descend along, and two buffers.

    The vector to descend along is the gradient; where it is not (with L1 it is the
    pseudo-gradient), `own_gradient` holds the gradient.
    """

    vector: Float[Tensor, "p"]
    memory: Memory
    trial: Float[Tensor, "p"]
    direction: Float[Tensor, "p"]
    own_gradient: Float[Tensor, "p"] | None
    value: float
    gradient_norm: float
    size: float
    step: float = 0.0
    iteration: int = 0
    exact: bool = True
    since: int = 0
    crossings: int = 0

    @classmethod
    def at(
        cls,
        problem: Problem,
        start: Float[Tensor, "p"],
        memory: Memory,
        value: Float[Tensor, ""],
        own_gradient: Float[Tensor, "p"] | None,
    ) -> Self:
        """The state at the starting point, whose descent vector the memory holds."""
        square, size = memory.steepest.dot(memory.steepest), start.dot(start)
        first, memory.square, whole = (float(number) for number in (value, square, size))
        check_start(problem, first, memory.steepest)
        buffers = (torch.empty_like(start), torch.empty_like(start))
        norms = (math.sqrt(memory.square), math.sqrt(whole))
        return cls(start.clone(), memory, *buffers, own_gradient, first, *norms)

    @property
    def gradient(self) -> Float[Tensor, "p"]:
        return self.memory.steepest if self.own_gradient is None else self.own_gradient

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

    def arrive(self, step: float, value: float, size: float, measured: Numbers) -> None:
        """Makes the trial point, probed last, the current one, but for `own_gradient`."""
        self.memory.accept(measured, steepest_is_gradient=self.own_gradient is None)
        self.vector, self.trial = self.trial, self.vector
        self.value, self.step, self.size = value, step, math.sqrt(size)
        self.gradient_norm = math.sqrt(self.memory.square)
        self.iteration += 1

    def no_way_down(self) -> Verdict:
        """What it means that no step along the negative gradient lowers the value."""
        kind = self.vector.dtype
        move = (self.memory.scale or self.first_step) * self.gradient_norm
        gain = 0.5 * move * self.gradient_norm
        if gain <= 64 * self.noise or move <= 64 * torch.finfo(kind).eps * self.size:
            return Verdict(
                "value",
                f"the value no longer falls: what is left to gain (about {gain:.1e}) is lost in "
                f"the rounding of {str(kind).removeprefix('torch.')}.",
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
        if self.own_gradient is not None:
            own |= {"gradient": self.own_gradient}
        return own | self.memory.tensors()

    @classmethod
    def restore(cls, history: int, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> Self:
        """The state that gave these tensors, on the device of `like`."""
        placed = {n: tensors[n].to(like.device) for n in ("vector", "gradient") if n in tensors}
        memory = Memory(history, like)
        memory.restore(tensors)
        value, norm, size, step, iteration = tensors["numbers"].tolist()
        buffers = (torch.empty_like(like), torch.empty_like(like))
        numbers = (value, norm, size, step, int(iteration))
        return cls(placed["vector"], memory, *buffers, placed.get("gradient"), *numbers)
