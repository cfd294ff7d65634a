"""OWL-QN: quasi-Newton steps inside one orthant, for objectives with an L1 penalty.

G. Andrew and J. Gao, Scalable training of L1-regularized log-linear models, ICML 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch

from mrflearn.objectives.base import Evaluation, Vector
from mrflearn.objectives.problem import Problem
from mrflearn.training.lbfgs import ROUNDINGS, QuasiNewton, QuasiNewtonState


@final
@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """Orthant-wise limited-memory quasi-Newton; for L1 and elastic-net penalties."""

    max_iterations: int = 500

    def blank(self, start: Vector) -> QuasiNewtonState:
        return replace(super().blank(start), gradient=torch.zeros_like(start))

    def evaluate(self, problem: Problem, state: QuasiNewtonState) -> Evaluation:
        found = problem.total(state.trial)
        pseudo_gradient(state.trial, found.gradient, problem.l1, out=state.memory.trial)
        return problem.with_l1(state.trial, found)

    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        """Backtracking inside one orthant [Andrew and Gao, section 3.2]."""
        memory, step, gradient = state.memory, state.first_step, state.gradient
        assert gradient is not None  # noqa: S101 - `blank` made one
        if not memory.direction(out=state.direction) < 0:
            return False
        # Entries that the memory has turned uphill are dropped.
        state.direction.masked_fill_(state.direction * memory.steepest >= 0, 0)
        for _ in range(30):
            torch.add(state.vector, state.direction, alpha=step, out=state.trial)
            # What has left the orthant is set to zero, but a weight without L1 has no corner.
            left = state.trial * state.vector < 0
            state.trial.masked_fill_(left & (problem.l1 > 0), 0)
            found = self.evaluate(problem, state)
            torch.sub(state.trial, state.vector, out=memory.step)
            change = memory.step.dot(memory.steepest)
            tried = state.measure(step, found, found.gradient, gradient)
            promise = change.item()  # by the pseudo-gradient
            finite = math.isfinite(tried.value) and bool(np.isfinite(tried.products).all())
            if finite and promise < 0 and tried.value <= state.value + 1e-4 * promise:
                state.arrive(tried)
                return True
            if -promise < state.noise / ROUNDINGS:
                return False  # a shorter step could only change the value by less than it rounds
            step *= shrinkage(tried.value - state.value, promise)
        return False


def pseudo_gradient(vector: Vector, gradient: Vector, l1: float | Vector, out: Vector) -> Vector:
    """Writes the one-sided derivative of least size, of the smooth part plus l1 |w| [eq. 4]."""
    # At zero the corner gives way only to a derivative steeper than itself.
    at_zero = gradient.clamp(-l1, l1).neg_().add_(gradient)  # type: ignore[arg-type]
    elsewhere = torch.sign(vector, out=out).mul_(l1).add_(gradient)
    return torch.where(vector == 0, at_zero, elsewhere, out=out)


def shrinkage(change: float, promise: float) -> float:
    """By what to multiply a step that did not lower the value: the parabola's minimum, guarded."""
    if not (change > promise and promise < 0):  # NaN comes here too
        return 0.25
    return min(max(-0.5 * promise / (change - promise), 0.1), 0.5)
