from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mrflearn.errors import TrainingError, TrainingWarning
from mrflearn.objectives.problem import Penalty
from mrflearn.training.lbfgs import LBFGS
from support.functions import minimise
from support.problems import examples, logistic, quadratic, rosenbrock

TIGHT = LBFGS(max_iterations=5000, tolerance=1e-9, delta=None)


@pytest.mark.parametrize("condition", [1, 1e2, 1e4])
def test_quadratics_are_solved(condition):
    function, target = quadratic(40, condition)
    outcome = minimise(function, torch.zeros(40, dtype=torch.float64), TIGHT)
    assert outcome.converged
    torch.testing.assert_close(outcome.model, target, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [2, 10, 100])
def test_rosenbrock_valley(size):
    start = torch.full((size,), -1.2, dtype=torch.float64)
    start[1::2] = 1.0
    outcome = minimise(rosenbrock, start, TIGHT)
    assert outcome.ending == "gradient"
    torch.testing.assert_close(outcome.model, torch.ones(size, dtype=torch.float64))


@given(
    st.integers(1, 12),
    st.floats(0, 5),
    st.integers(0, 10**6),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.integers(1, 12),
)
def test_random_convex_problems(size, log_condition, seed, scale, history):
    function, target = quadratic(size, 10**log_condition, seed)

    def scaled(x):
        value, gradient = function(x)
        return scale * value, scale * gradient

    optimiser = LBFGS(max_iterations=20000, tolerance=1e-9 * scale, delta=None, history=history)
    outcome = minimise(scaled, torch.zeros(size, dtype=torch.float64), optimiser)
    assert outcome.converged, outcome.reason
    assert float((outcome.model - target).abs().max()) < 1e-5
    values = [row.value for row in outcome.history]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(values))


def test_the_same_optimum_as_scipy_in_about_as_many_evaluations():
    function = logistic(examples(500, 30, seed=1))
    start = torch.zeros(30, dtype=torch.float64)

    def for_scipy(w):
        value, gradient = function(torch.from_numpy(w))
        return float(value) + 0.05 * w @ w, gradient.numpy() + 0.1 * w

    theirs = minimize(
        for_scipy, start.numpy(), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-7}
    )
    ours = minimise(function, start, TIGHT, penalty=Penalty(l2=0.05))
    np.testing.assert_allclose(ours.model.numpy(), theirs.x, atol=1e-6)
    assert ours.value == pytest.approx(theirs.fun, rel=1e-10)
    reached = next(r for r in ours.history if r.value <= theirs.fun + 1e-9 * abs(theirs.fun))
    assert reached.evaluations <= 1.2 * theirs.nfev + 2


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_single_precision_ends_at_the_optimum_of_double(scale):
    data = examples(2000, 40, seed=2)
    wide = logistic(data)
    exact = minimise(wide, torch.zeros(40, dtype=torch.float64), TIGHT, penalty=Penalty(l2=0.1))
    narrow = logistic(data._replace(features=data.features.float(), labels=data.labels.float()))

    def scaled(w):
        value, gradient = narrow(w)
        return scale * value, scale * gradient

    start = torch.zeros(40, dtype=torch.float32)
    optimiser = LBFGS(max_iterations=500, tolerance=1e-9)
    outcome = minimise(scaled, start, optimiser, penalty=Penalty(l2=0.1 * scale))
    assert outcome.converged, outcome.reason
    assert outcome.evaluations < 60
    torch.testing.assert_close(outcome.model.double(), exact.model, rtol=0, atol=2e-3)


def test_single_precision_knows_the_floor_of_a_valley_at_zero():
    # The value there is 0, so that its own size says nothing of its rounding.
    outcome = minimise(rosenbrock, torch.full((100,), -1.0), LBFGS(2000, tolerance=0, delta=None))
    assert outcome.converged, outcome.reason
    torch.testing.assert_close(outcome.model, torch.ones(100), rtol=0, atol=1e-4)


def test_a_region_without_numbers_is_avoided():
    def function(x):  # least at 1e-3, no number from 0 down
        return (x - 1e-3 * x.log()).sum(), 1 - 1e-3 / x

    outcome = minimise(function, torch.full((3,), 5.0, dtype=torch.float64), TIGHT)
    assert outcome.converged
    torch.testing.assert_close(outcome.model, torch.full((3,), 1e-3, dtype=torch.float64))


def test_a_gradient_buffer_may_be_written_again():
    function, target = quadratic(10, 100)
    buffer = torch.empty(10, dtype=torch.float64)

    def reusing(x):
        value, gradient = function(x)
        return float(value), buffer.copy_(gradient)

    outcome = minimise([reusing, reusing], torch.zeros(10, dtype=torch.float64), TIGHT)
    torch.testing.assert_close(outcome.model, target, rtol=0, atol=1e-6)


def test_a_wrong_gradient_is_found_out():
    function, _ = quadratic(5, 10)
    start = torch.ones(5, dtype=torch.float64)
    with pytest.warns(TrainingWarning):
        outcome = minimise(lambda x: (function(x)[0], -function(x)[1]), start, LBFGS())
    assert outcome.ending == "stuck"
    assert outcome.failed
    assert not outcome.converged


def test_at_the_optimum_nothing_is_done():
    function, target = quadratic(5, 10)
    outcome = minimise(function, target, LBFGS())
    assert (outcome.iterations, outcome.evaluations, outcome.ending) == (0, 1, "gradient")
    assert torch.equal(outcome.model, target)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: (x.sum() / 0, x), "value at the starting point is"),
        (lambda x: (x.sum(), x / 0), r"gradient at parameter vector\[0\] is nan"),
        (lambda x: (x.sum(), x[:1]), "are needed"),
        (lambda x: (x, x), "one number"),
    ],
)
def test_a_start_without_numbers_is_refused(function, words):
    with pytest.raises(TrainingError, match=words):
        minimise(function, torch.zeros(3), LBFGS())


def test_refusals():
    function, _ = quadratic(5, 10)
    start = torch.zeros(5, dtype=torch.float64)
    with pytest.raises(TrainingError, match="OWLQN"):
        minimise(function, start, LBFGS(), penalty=Penalty(l1=1.0))
    with pytest.raises(TrainingError, match="history=0"):
        LBFGS(history=0)
    with pytest.raises(TrainingError, match="float16"):
        minimise(function, start.half(), LBFGS())
    with pytest.raises(TrainingError, match=r"vector\[1\] starts as inf"):
        minimise(function, torch.tensor([0.0, torch.inf]), LBFGS())
    with pytest.raises(TrainingError, match="no batches"):
        minimise([], start, LBFGS())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_optimum_on_the_gpu():
    data = examples(500, 30, seed=1)
    here = minimise(
        logistic(data), torch.zeros(30, dtype=torch.float64), TIGHT, penalty=Penalty(l2=0.05)
    )
    there = type(data)(*(tensor.cuda() for tensor in data))
    start = torch.zeros(30, dtype=torch.float64, device="cuda")
    outcome = minimise(logistic(there), start, TIGHT, penalty=Penalty(l2=0.05))
    torch.testing.assert_close(outcome.model.cpu(), here.model, rtol=0, atol=1e-8)
