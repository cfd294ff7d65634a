"""OWL-QN: L-BFGS for objectives with an L1 penalty, whose optima have weights of exactly zero.

G. Andrew and J. Gao, Scalable training of L1-regularized log-linear models, ICML 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.training.lbfgs import (
    ROUNDINGS,
    Memory,
    QuasiNewtonSettings,
    QuasiNewtonState,
    Trial,
    cross,
    fetch,
)
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem


@final
@dataclass(frozen=True)
class OWLQN(QuasiNewtonSettings):
    """Orthant-wise limited-memory quasi-Newton; for L1 and elastic-net penalties."""

    max_iterations: int = 500

    def begin(self, problem: Problem, start: Float[Tensor, " p"]) -> QuasiNewtonState:
        found = problem.total(start)
        memory = Memory(self.history, start)
        pseudo_gradient(start, found.gradient, problem.l1, out=memory.steepest)
        found = replace(found, value=found.value + problem.l1_value(start))
        return QuasiNewtonState.at(problem, start, memory, found, found.gradient.clone())

    def advance(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        while True:
            search = _Search(problem, state)
            if search.succeeds():
                return None
            if state.memory.count:
                state.memory.forget()
            elif not state.finds_noise(problem):
                return cross(self.begin, problem, state)


def pseudo_gradient(
    vector: Float[Tensor, " p"],
    gradient: Float[Tensor, " p"],
    l1: float | Float[Tensor, " p"],
    out: Float[Tensor, " p"],
) -> Float[Tensor, " p"]:
    """Writes the one-sided derivative of least size, of the smooth part plus l1 |w| [eq. 4]."""
    # At zero the corner gives way only to a slope steeper than itself.
    at_zero = gradient.clamp(-l1, l1).neg_().add_(gradient)  # type: ignore[arg-type]
    elsewhere = torch.sign(vector, out=out).mul_(l1).add_(gradient)
    return torch.where(vector == 0, at_zero, elsewhere, out=out)


@final
class _Search:
    """One backtracking search along the quasi-Newton direction, inside one orthant."""

    def __init__(self, problem: Problem, state: QuasiNewtonState) -> None:
        self.problem, self.state = problem, state
        self.gradient = state.gradient
        self.trial: Trial

    def succeeds(self, decrease: float = 1e-4, most: int = 30) -> bool:
        """Whether a lower point was found; the state is moved there."""
        state = self.state
        if not state.memory.direction(out=state.direction) < 0:
            return False
        # [section 3.2] Entries that the memory has turned uphill are dropped.
        state.direction.masked_fill_(state.direction * state.memory.steepest >= 0, 0)
        step = state.first_step
        for _ in range(most):
            value, promise = self.probe(step)
            finite = math.isfinite(value) and bool(np.isfinite(self.trial.products).all())
            if finite and promise < 0 and value <= state.value + decrease * promise:
                state.arrive(step, self.trial)
                state.gradient.copy_(self.gradient)
                return True
            if -promise < state.noise / ROUNDINGS:
                return False  # a shorter step could only change the value by less than it rounds
            step *= shrinkage(value - state.value, promise)
        return False

    def probe(self, step: float) -> tuple[float, float]:
        """The value at a step length, and the change the pseudo-gradient promises there."""
        state, memory = self.state, self.state.memory
        torch.add(state.vector, state.direction, alpha=step, out=state.trial)
        self.project()
        found = self.problem.total(state.trial)
        self.gradient = found.gradient
        pseudo_gradient(state.trial, self.gradient, self.problem.l1, out=memory.trial)
        torch.sub(state.trial, state.vector, out=memory.step)
        promise = memory.step.dot(memory.steepest)
        size = state.trial.dot(state.trial).view(1)
        numbers = torch.cat((size, memory.measure(self.gradient, state.gradient)))
        # The device is waited for here; the other numbers are then there too.
        value = (found.value + self.problem.l1_value(state.trial)).item()
        self.trial = Trial(value, found.noise, *fetch(numbers))
        return value, promise.item()

    def project(self) -> None:
        """Sets to zero what has left the orthant of the current point [pi, section 3.2].

        Only a weight that was not zero can leave: at zero the direction points into the orthant.
        """
        state, l1 = self.state, self.problem.l1
        left = state.trial * state.vector < 0
        # A weight without L1 has no corner, and so no side to stay on.
        state.trial.masked_fill_(left & (l1 > 0), 0)


def shrinkage(change: float, promise: float) -> float:
    """By what to multiply a step that did not lower the value: the parabola's minimum, guarded."""
    if not (change > promise and promise < 0):  # NaN comes here too
        return 0.25
    return min(max(-0.5 * promise / (change - promise), 0.1), 0.5)
