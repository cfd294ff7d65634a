"""Scaled coordinates change the path of training, and nothing else."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.objectives.problem import Cholesky, Diagonal, Meter, Penalty, Problem
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.owlqn import OWLQN
from support.functions import Function, minimise

GENERATOR = torch.Generator().manual_seed(0)
SIZES = torch.rand(4, generator=GENERATOR, dtype=torch.float64) + 0.5
ROOT = torch.rand(4, 4, generator=GENERATOR, dtype=torch.float64)
CURVATURE = ROOT @ ROOT.T + torch.eye(4, dtype=torch.float64)
ORIGIN = torch.rand(4, generator=GENERATOR, dtype=torch.float64)
SCALINGS = [Diagonal(SIZES), Cholesky.of(CURVATURE, ORIGIN)]
CENTRE = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)


def bowl(vector):
    away = vector - CENTRE
    return 0.5 * away @ CURVATURE @ away, CURVATURE @ away


@pytest.mark.parametrize("scaling", SCALINGS)
def test_there_and_back(scaling):
    vector = torch.linspace(-1, 1, 4, dtype=torch.float64)
    torch.testing.assert_close(scaling.natural(scaling.scaled(vector)), vector)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_gradients_of_objective_and_penalty_are_those_by_the_scaled_coordinates(scaling):
    start = torch.zeros(4, dtype=torch.float64)
    problem = Problem(Function(bowl, start), Penalty(l2=0.3), scaling, start, 0, Meter())
    vector = torch.linspace(-1, 1, 4, dtype=torch.float64)
    natural = scaling.natural(vector)
    found = problem.total(vector)
    assert float(found.value) == pytest.approx(
        float(bowl(natural)[0] + 0.3 * natural.square().sum())
    )
    for i, step in enumerate(1e-5 * torch.eye(4, dtype=torch.float64)):
        rise = problem.total(vector + step).value - problem.total(vector - step).value
        assert float(found.gradient[i]) == pytest.approx(float(rise) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("scaling", [None, *SCALINGS])
def test_every_scaling_leads_to_the_same_place(scaling):
    outcome = minimise(
        bowl, ORIGIN, LBFGS(tolerance=1e-10), penalty=Penalty(l2=0.3), scaling=scaling
    )
    best = torch.linalg.solve(
        CURVATURE + 0.6 * torch.eye(4, dtype=torch.float64), CURVATURE @ CENTRE
    )
    torch.testing.assert_close(outcome.model, best)


def test_coordinates_that_suit_need_fewer_iterations():
    hard = torch.logspace(0, 6, 30, dtype=torch.float64)

    def valley(vector):
        return 0.5 * (hard * (vector - 1).square()).sum(), hard * (vector - 1)

    start, tight = torch.zeros(30, dtype=torch.float64), LBFGS(tolerance=1e-8)
    plain = minimise(valley, start, tight)
    scaled = minimise(valley, start, tight, scaling=Diagonal(hard.rsqrt()))
    assert scaled.converged
    assert scaled.iterations < plain.iterations / 3


def test_l1_is_on_the_parameters_themselves():
    start = torch.zeros(4, dtype=torch.float64)
    tight = OWLQN(tolerance=1e-10)
    plain = minimise(bowl, start, tight, penalty=Penalty(l1=2.0))
    scaled = minimise(bowl, start, tight, penalty=Penalty(l1=2.0), scaling=Diagonal(SIZES))
    torch.testing.assert_close(scaled.model, plain.model, rtol=0, atol=1e-7)
    assert scaled.value == pytest.approx(plain.value)
    with pytest.raises(TrainingError, match="L1"):
        minimise(bowl, start, tight, penalty=Penalty(l1=2.0), scaling=SCALINGS[1])
