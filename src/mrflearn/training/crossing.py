"""Over an edge of the value, for functions that have branches.

Bethe's value follows one fixed point of belief propagation for as long as there is one.  Where that
ends the value leaps, mostly upwards, and a line search comes to rest at the edge though the
gradient is far from zero.  So training steps over it and descends on from the other side.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem
from mrflearn.training.quasi_newton import QuasiNewtonState

MOST_CROSSINGS = 20  # on half of the seminar announcements one was needed


def cross(
    begin: Callable[[Problem, Tensor], QuasiNewtonState], problem: Problem, state: QuasiNewtonState
) -> Verdict | None:
    """Moves a state that has no way down over the edge it stands at; a verdict where it may not.

    `begin` gives the state at a vector, as an optimiser's does.
    """
    verdict = state.no_way_down()
    if verdict.ending != "stuck" or not problem.branches or state.crossings >= MOST_CROSSINGS:
        return verdict
    step = state.first_step
    beyond = begin(problem, torch.sub(state.vector, state.memory.steepest, alpha=step))
    beyond.iteration = beyond.since = state.iteration + 1
    beyond.step, beyond.crossings = step, state.crossings + 1
    vars(state).update(vars(beyond))
    return None
