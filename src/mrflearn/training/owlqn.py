"""OWL-QN: L-BFGS for objectives with an L1 penalty, whose optima have weights of exactly zero.

G. Andrew and J. Gao, Scalable training of L1-regularized log-linear models, ICML 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.objectives.penalties import Strength
from mrflearn.training.lbfgs import check_history
from mrflearn.training.memory import STEEPEST, STEP, Numbers
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem
from mrflearn.training.quasi_newton import NOISE_ROUNDINGS, QuasiNewtonState
from mrflearn.training.stopping import StopRule


@final
@dataclass(frozen=True)
class OWLQN:
    """Orthant-wise limited-memory quasi-Newton; for L1 and elastic-net penalties."""

    max_iterations: int = 500
    tolerance: float | None = 1e-6
    history: int = 10
    period: int = 10
    delta: float | None = 1e-9
    max_evaluations: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_history(self.history)

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.max_iterations,
            self.max_evaluations,
            self.max_seconds,
            self.tolerance,
            self.period,
            self.delta,
        )

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> QuasiNewtonState:
        value, gradient = problem.total(start)
        gradient = gradient.clone()
        steepest = pseudo_gradient(start, gradient, problem.penalty.l1)
        value = value + problem.penalty.rough(start)
        return QuasiNewtonState.at(problem, start, self.history, value, gradient, steepest)

    def advance(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        while True:
            search = _Search(problem, state)
            if search.succeeds():
                return None
            if not state.memory.count:
                return state.no_way_down()
            state.memory.forget()

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> QuasiNewtonState:
        return QuasiNewtonState.restore(self.history, like, tensors)


def pseudo_gradient(
    vector: Float[Tensor, "p"], gradient: Float[Tensor, "p"], l1: Strength
) -> Float[Tensor, "p"]:
    """The one-sided derivative of least size, of the smooth part plus l1 |w| [eq. 4]."""
    # At zero the corner gives way only to a slope steeper than itself.
    at_zero = gradient.clamp(-l1, l1).neg_().add_(gradient)  # type: ignore[arg-type]
    elsewhere = vector.sign().mul_(l1).add_(gradient)
    return torch.where(vector == 0, at_zero, elsewhere, out=elsewhere)


@final
class _Search:
    """One backtracking search along the quasi-Newton direction, inside one orthant."""

    def __init__(self, problem: Problem, state: QuasiNewtonState) -> None:
        self.problem, self.state = problem, state
        # The orthant: the signs of the weights, for zeros the side on which the value falls.
        # A weight without L1 has no corner, and so no side to stay on.
        sides = torch.where(state.vector == 0, -state.steepest, state.vector).sign()
        self.signs = sides * (torch.as_tensor(problem.penalty.l1) > 0)
        self.gradient = state.gradient
        self.numbers: Numbers

    def succeeds(self, decrease: float = 1e-4, most: int = 30) -> bool:
        """Whether a lower point was found; the state is moved there."""
        state = self.state
        if not state.memory.direction(state.steepest, out=state.direction) < 0:
            return False
        # [section 3.2] Entries that the memory has turned uphill are dropped.
        state.direction.masked_fill_(state.direction * state.steepest >= 0, 0)
        step = state.first_step
        for _ in range(most):
            value, promise = self.probe(step)
            if promise < 0 and value <= state.value + decrease * promise:
                state.arrive(step, value, self.numbers[2], self.numbers[3:])
                state.steepest.copy_(state.memory.rows[STEEPEST])
                state.gradient.copy_(self.gradient)
                return True
            if -promise < state.noise / NOISE_ROUNDINGS:
                return False  # a shorter step could only change the value by less than it rounds
            step *= shrinkage(value - state.value, promise)
        return False

    def probe(self, step: float) -> tuple[float, float]:
        """The value at a step length, and the change the pseudo-gradient promises there."""
        state, penalty = self.state, self.problem.penalty
        torch.add(state.vector, state.direction, alpha=step, out=state.trial)
        # [the projection pi, section 3.2]
        state.trial.masked_fill_(state.trial * self.signs < 0, 0)
        value, self.gradient = self.problem.total(state.trial)
        value = value + penalty.rough(state.trial)
        steepest = pseudo_gradient(state.trial, self.gradient, penalty.l1)
        measured = state.memory.measure(
            (state.trial, state.vector), (self.gradient, state.gradient), steepest
        )
        promise = state.memory.rows[STEP].dot(state.steepest).double()
        size = state.trial.dot(state.trial).double()
        head = torch.stack((value, promise, size))
        self.numbers = torch.cat((head, measured)).cpu().numpy()
        return float(self.numbers[0]), float(self.numbers[1])


def shrinkage(change: float, promise: float) -> float:
    """By what to multiply a step that did not lower the value: the parabola's minimum, guarded."""
    if not (change > promise and promise < 0):  # NaN comes here too
        return 0.25
    return min(max(-0.5 * promise / (change - promise), 0.1), 0.5)
