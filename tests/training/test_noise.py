"""The noise of a function, measured; and what optimisers make of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mrflearn.objectives.problem import Meter, Penalty, Problem, measure_noise, noise_of_line
from mrflearn.training.lbfgs import LBFGS
from support.functions import Function, minimise


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-2])
def test_noise_on_a_smooth_function_is_found(size: float) -> None:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(200):
        line = np.linspace(1.0, 1.001, 7)
        values = np.exp(line) + 3 * line**2 + size * generator.standard_normal(7)
        found.append(noise_of_line(values))
    assert size / 3 < float(np.median(found)) < 3 * size


def test_a_smooth_function_has_only_the_noise_of_its_type() -> None:
    def value(vector: Tensor) -> float:
        return float((vector.double() ** 2).sum() + vector.double().exp().sum())

    vector = torch.linspace(-1, 1, 50)
    # The vector itself is rounded to float32 at each point, and the value follows its gradient.
    assert measure_noise(value, vector) < 1e-5
    assert measure_noise(value, vector.double()) < 1e-12


def test_values_that_are_not_numbers_have_noise_without_bounds() -> None:
    assert measure_noise(lambda _: math.nan, torch.ones(3)) == math.inf


@pytest.mark.parametrize("noise", [1e-9, 1e-6, 1e-3])
def test_training_ends_where_what_is_left_to_gain_is_noise(noise: float) -> None:
    """Far more noise than the rounding of the type: it is measured, and not taken for failure."""
    generator = np.random.default_rng(1)
    scales = torch.logspace(-1, 1, 10, dtype=torch.float64)

    def function(vector: Tensor) -> tuple[Tensor, Tensor]:
        away = vector - 1
        value = 1 + (scales * away**2).sum() + noise * generator.standard_normal()
        return value, 2 * scales * away * (1 + 1e-3 * noise * generator.standard_normal())

    outcome = minimise(function, torch.zeros(10, dtype=torch.float64), LBFGS(tolerance=1e-15))
    assert outcome.converged, outcome.reason
    assert (outcome.model - 1).abs().max() < 30 * math.sqrt(noise)


def test_training_goes_on_in_double_where_single_precision_gets_stuck() -> None:
    """A value that float32 rounds away: its gradient is right, and no step seems to lower it."""
    asked: list[torch.dtype] = []

    def function(vector: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(vector.dtype)
        away = (vector - 3).double()
        value = away.square().sum()
        if vector.dtype == torch.float32 and len(asked) > 1:
            value = value + 100.0  # any step looks like a rise
        return value, (2 * away).to(vector.dtype)

    outcome = minimise(function, torch.zeros(4), LBFGS(), in_double=lambda: function)
    assert asked[0] == torch.float32
    assert asked[-1] == torch.float64
    assert outcome.converged
    assert outcome.model.dtype == torch.float32
    torch.testing.assert_close(outcome.model, torch.full((4,), 3.0))


@pytest.mark.parametrize(("gradient", "ending"), [(9e-7, "value"), (9e-3, "stuck")])
def test_what_no_reader_can_see_is_no_failure(gradient: float, ending: str) -> None:
    """An inference inside may be less exact than it says, by a trillionth of the value."""
    start = torch.ones(4, dtype=torch.float64)
    bowl = Function(lambda x: (3 + 0.5 * x.square().sum(), x), start)
    state = LBFGS().blank(start)
    LBFGS().begin(Problem(bowl, Penalty(), None, start, 0, Meter()), state)
    state.memory.scale, state.gradient_norm = 1.0, gradient
    assert state.no_way_down().ending == ending
