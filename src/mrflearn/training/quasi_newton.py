"""The state that L-BFGS and OWL-QN share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.objectives.objective import Evaluation
from mrflearn.training.memory import Memory, Numbers
from mrflearn.training.noise import measure_noise
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem, check_start

# A value is off by some roundings of its type, and counts as changed beyond so many times that.
ROUNDINGS = 4
TRUST = 4


class Trial(NamedTuple):
    """What an optimiser fetches from the device about a point it tries."""

    value: float
    noise: Float[Tensor, ""] | float
    size: float  # squared norm of the vector
    products: Numbers  # as `Memory.measure` gives them


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
    reported: float = 0.0  # the noise that the objective itself knows of
    measured: float = 0.0  # the noise found where a line search failed
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
        found: Evaluation,
        own_gradient: Float[Tensor, "p"] | None,
    ) -> Self:
        """The state at the starting point, whose descent vector the memory holds."""
        square, size = memory.steepest.dot(memory.steepest), start.dot(start)
        first, memory.square, whole = (float(number) for number in (found.value, square, size))
        check_start(problem, first, memory.steepest)
        buffers = (torch.empty_like(start), torch.empty_like(start))
        norms = (math.sqrt(memory.square), math.sqrt(whole))
        own = (start.clone(), memory, *buffers, own_gradient)
        return cls(*own, first, *norms, reported=float(found.noise))

    @property
    def gradient(self) -> Float[Tensor, "p"]:
        return self.memory.steepest if self.own_gradient is None else self.own_gradient

    @property
    def answer(self) -> Float[Tensor, "p"]:
        return self.vector

    @property
    def noise(self) -> float:
        """By how much the value may be off."""
        rounding = ROUNDINGS * torch.finfo(self.vector.dtype).eps * abs(self.value)
        return max(rounding, self.reported, self.measured)

    def finds_noise(self, problem: Problem) -> bool:
        """Whether values here have more noise than was thought; it is then known."""
        vector = self.vector.clone()

        def value(near: Tensor) -> float:
            found = problem.total(near).value + problem.penalty.rough(near)
            return float(found)

        before = self.noise
        self.measured = measure_noise(value, vector, problem.seed)
        if not math.isfinite(self.measured):
            self.measured = 0.0
        return self.noise > before

    @property
    def first_step(self) -> float:
        """The step length to try first along the current direction."""
        if self.memory.count:
            return 1.0
        return self.memory.scale or min(1.0, 1.0 / self.gradient_norm)

    def arrive(self, step: float, trial: Trial) -> None:
        """Makes the trial point, probed last, the current one, but for `own_gradient`."""
        self.memory.accept(trial.products, steepest_is_gradient=self.own_gradient is None)
        self.vector, self.trial = self.trial, self.vector
        self.value, self.step, self.size = trial.value, step, math.sqrt(trial.size)
        self.reported = float(trial.noise)
        self.gradient_norm = math.sqrt(self.memory.square)
        self.iteration += 1

    def no_way_down(self) -> Verdict:
        """What it means that no step along the negative gradient lowers the value."""
        kind = self.vector.dtype
        move = (self.memory.scale or self.first_step) * self.gradient_norm
        gain = 0.5 * move * self.gradient_norm
        lost = 4 * TRUST * self.noise
        if gain <= lost or move <= 64 * torch.finfo(kind).eps * self.size:
            return Verdict(
                "value",
                f"the value no longer falls: what is left to gain (about {gain:.1e}) is lost in "
                f"the noise of {str(kind).removeprefix('torch.')} values ({self.noise:.1e}).",
            )
        return Verdict(
            "stuck",
            "training failed: no step against the gradient lowers the value, though the gradient "
            f"has norm {self.gradient_norm:.1e} and values are exact to {self.noise:.1e}. The "
            "inference inside may not have converged, or the value has a corner here.",
        )

    def tensors(self) -> dict[str, Tensor]:
        counts = [float(self.iteration), float(self.since), float(self.crossings)]
        norms = [self.value, self.gradient_norm, self.size]
        numbers = [*norms, self.reported, self.measured, self.step, *counts]
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
        *numbers, iteration, since, crossings = tensors["numbers"].tolist()
        buffers = (torch.empty_like(like), torch.empty_like(like))
        state = cls(placed["vector"], memory, *buffers, placed.get("gradient"), *numbers)
        state.iteration, state.since, state.crossings = map(int, (iteration, since, crossings))
        return state
