"""A value with two branches, which one depending on where training has been."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mrflearn.errors import TrainingWarning
from mrflearn.objectives.base import Evaluation, Layout, Objective
from mrflearn.objectives.problem import Penalty
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.owlqn import OWLQN
from support.functions import minimise

EDGE, LOWEST, HIGHER = 1.0, 3.0, 10.0


class TwoBranches(Objective[Tensor]):
    """(x - 3)^2 up to x = 1, and 10 more beyond; whoever stood beyond stays there, down to -1."""

    layout = Layout(("vector",), (torch.Size([1]),))
    branches = True

    def __init__(self) -> None:
        self.stands = self.latest = False  # beyond the edge
        self.started: list[bool] = []

    def at(self, vector: Tensor) -> Tensor:
        return vector

    def __call__(self, vector: Tensor) -> Evaluation:
        self.started.append(self.stands)
        self.latest = bool(vector[0] > (-1.0 if self.stands else EDGE))
        away = vector - LOWEST
        return Evaluation(away.dot(away) + HIGHER * self.latest, 2 * away)

    def commit(self) -> None:
        self.stands = self.latest

    def state(self) -> dict[str, Tensor]:
        return {"stands": torch.tensor(float(self.stands))}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.stands = bool(state["stands"])


@pytest.mark.parametrize("optimiser", [LBFGS(), OWLQN()], ids=["lbfgs", "owlqn"])
def test_training_goes_on_beyond_an_edge(optimiser: LBFGS | OWLQN) -> None:
    penalty = Penalty(l1=0.0) if isinstance(optimiser, OWLQN) else None
    function = TwoBranches()
    options = {} if penalty is None else {"penalty": penalty}
    outcome = minimise(function, torch.zeros(1, dtype=torch.float64), optimiser, **options)
    assert outcome.converged
    assert float(outcome.model[0]) == pytest.approx(LOWEST, abs=1e-4)
    values = [row.value for row in outcome.history]
    assert max(values) > values[0]  # it had to climb
    assert values[-1] == pytest.approx(HIGHER, abs=1e-4)


def test_a_trial_that_is_turned_down_leaves_nothing_behind() -> None:
    function = TwoBranches()
    function.branches = False  # then an edge is the end
    with pytest.warns(TrainingWarning):
        outcome = minimise(function, torch.zeros(1, dtype=torch.float64), LBFGS())
    assert not any(function.started)  # though trials beyond the edge were made
    assert outcome.ending == "stuck"
    assert float(outcome.model[0]) == pytest.approx(EDGE, abs=1e-6)


def test_an_edge_without_another_side_ends_training() -> None:
    def wall(vector: Tensor) -> tuple[Tensor, Tensor]:
        value = -vector.sum() + 100.0 * (vector.sum() > EDGE)
        return value, -torch.ones_like(vector)

    function: Callable[[Tensor], tuple[Tensor, Tensor]] = wall
    with pytest.warns(TrainingWarning):
        outcome = minimise(function, torch.zeros(1, dtype=torch.float64), LBFGS())
    assert outcome.ending == "stuck"
