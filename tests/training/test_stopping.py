from __future__ import annotations

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import Row, StopRule
from support.functions import minimise
from support.problems import quadratic, rosenbrock

START = torch.full((30,), -1.0, dtype=torch.float64)


def row(iteration, value, norm=1.0):
    return Row(iteration, value, norm, 1.0, iteration, 0.0)


@pytest.mark.parametrize(
    ("norm", "size", "value", "ends"),
    [(1e-4, 0.1, 0.5, True), (1e-4, 10, 0.5, False), (1e-4, 10, 100, True), (2e-4, 1, 1, False)],
)
def test_the_gradient_rule_is_relative(norm, size, value, ends):
    rule = StopRule(100, tolerance=1e-4)
    verdict = rule.verdict([row(1, value, norm)], size, 0.0)
    assert (verdict is not None and verdict.ending == "gradient") == ends


@pytest.mark.parametrize(
    ("values", "noise", "ends"),
    [
        ([10, 9, 8, 7], 0.0, False),
        ([10, 9, 9, 9], 0.0, False),
        ([10, 9, 9, 9, 9], 0.0, True),
        ([10, 9, 9, 9, 8.999], 0.0, False),
        ([10, 9, 9, 9, 8.999], 2e-3, True),
        ([-9, -9, -9, -9.5], 0.0, False),
    ],
)
def test_the_value_rule_looks_back_over_a_period(values, noise, ends):
    rule, rows = StopRule(100, period=3, delta=1e-6), [row(i, v) for i, v in enumerate(values)]
    verdict = rule.verdict(rows, 1.0, noise)
    assert (verdict is not None and verdict.ending == "value") == ends


def test_scaling_the_objective_does_not_move_the_end():
    def scaled(factor):
        def function(x):
            value, gradient = rosenbrock(x)
            return factor * (value + 10), factor * gradient

        return minimise(function, START, LBFGS(tolerance=1e-5, delta=None))

    # The first step, of length 1 / |gradient|, is the same too.
    assert scaled(1.0).iterations == scaled(1024.0).iterations


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_iterations": 5}, "5 iterations"),
        ({"max_evaluations": 9}, "9 evaluations"),
        ({"max_seconds": 0.0}, "0 seconds"),
    ],
)
def test_limits_end_training_with_what_was_reached(limits, words):
    outcome = minimise(rosenbrock, START, LBFGS(**limits))
    assert outcome.ending == "limit"
    assert not outcome.converged
    assert words in outcome.reason
    assert outcome.value == pytest.approx(float(rosenbrock(outcome.model)[0]))
    assert outcome.evaluations <= limits.get("max_evaluations", 10)
    assert outcome.iterations <= limits.get("max_iterations", 9)


def test_no_iterations_gives_the_start_back():
    outcome = minimise(rosenbrock, START, LBFGS(max_iterations=0))
    assert torch.equal(outcome.model, START)
    assert len(outcome.history) == 1


def test_the_history_counts():
    function, _ = quadratic(10, 100)
    outcome = minimise(function, torch.zeros(10, dtype=torch.float64), LBFGS())
    assert [r.iteration for r in outcome.history] == list(range(outcome.iterations + 1))
    assert outcome.history[-1].evaluations == outcome.evaluations
    assert outcome.history[-1].value == outcome.value
    seconds = [r.seconds for r in outcome.history]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= outcome.seconds


def test_refusals():
    with pytest.raises(TrainingError, match="max_iterations=-1"):
        minimise(rosenbrock, START, LBFGS(max_iterations=-1))
    with pytest.raises(TrainingError, match="period=0"):
        minimise(rosenbrock, START, LBFGS(period=0))
