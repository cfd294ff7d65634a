"""L-BFGS on one flat vector: one wait for the device an evaluation, none otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.training.crossing import cross
from mrflearn.training.line_search import Point, strong_wolfe
from mrflearn.training.memory import Memory, Numbers
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem
from mrflearn.training.quasi_newton import TRUST, QuasiNewtonState, Trial
from mrflearn.training.quasi_newton_settings import QuasiNewtonSettings


@final
@dataclass(frozen=True)
class LBFGS(QuasiNewtonSettings):
    """Limited-memory BFGS with a strong Wolfe line search; for smooth objectives."""

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> QuasiNewtonState:
        if problem.penalty.has_l1:
            raise TrainingError("L-BFGS needs a smooth penalty; for L1 train with OWLQN().")
        found = problem.total(start)
        memory = Memory(self.history, start)
        memory.steepest.copy_(found.gradient)
        return QuasiNewtonState.at(problem, start, memory, found, None)

    def advance(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        while True:
            search = _Search(problem, state)
            if search.succeeds():
                return None
            if state.memory.count:
                state.memory.forget()
            elif not state.finds_noise(problem):
                return cross(self.begin, problem, state)


@final
class _Search:
    """One line search from the state's point along its quasi-Newton direction."""

    def __init__(self, problem: Problem, state: QuasiNewtonState) -> None:
        self.problem, self.state = problem, state
        self.last = Point(0.0, state.value, 0.0)
        self.trial: Trial

    def succeeds(self) -> bool:
        """Whether a lower point was found; the state is moved there."""
        state = self.state
        slope = state.memory.direction(out=state.direction)
        if not slope < 0:
            return False
        start = Point(0.0, state.value, slope)
        found = strong_wolfe(self.probe, start, state.first_step, noise=TRUST * state.noise)
        if found is None:
            return False
        if found.step != self.last.step:
            self.probe(found.step)  # the lowest point was not the last: make it the last
        state.arrive(found.step, self.trial)
        return True

    def probe(self, step: float) -> Point:
        """Value and slope at a step length, fetched in one go with all L-BFGS will need there."""
        state, memory = self.state, self.state.memory
        torch.mul(state.direction, step, out=memory.step)
        torch.add(state.vector, memory.step, out=state.trial)
        found = self.problem.total(state.trial)
        memory.trial.copy_(found.gradient)
        size = state.trial.dot(state.trial).view(1)
        numbers = torch.cat((size, memory.measure(memory.trial, memory.steepest)))
        # The device is waited for here; the numbers are then there too.
        value = found.value.item()
        self.trial = Trial(value, found.noise, *fetch(numbers))
        self.last = Point(step, value, memory.slope(self.trial.products) / step)
        return self.last


def fetch(numbers: Float[Tensor, "n"]) -> tuple[float, Numbers]:
    """The first number, and the others in float64, on the host."""
    host = numbers.cpu().numpy().astype(np.float64)
    return float(host[0]), host[1:]
