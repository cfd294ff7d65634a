from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, LogisticRegression

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Layout
from mrflearn.objectives.problem import Penalty
from mrflearn.training import loop
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.owlqn import OWLQN, pseudo_gradient, shrinkage
from support.functions import Function, minimise
from support.problems import Examples, examples, logistic, quadratic

TIGHT = OWLQN(max_iterations=3000, tolerance=1e-9, delta=1e-14)


def proximal_gradient(function, start, l1, l2, steps, rate):
    """The slow twin: FISTA with a fixed step length."""
    point = ahead = start
    momentum = 1.0
    for _ in range(steps):
        moved = ahead - rate * (function(ahead)[1] + 2 * l2 * ahead)
        new = moved.sign() * (moved.abs() - rate * l1).clamp(min=0)
        after = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / after * (new - point)
        point, momentum = new, after
    return point


@given(
    st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 20), st.sampled_from([0.0, 0.1, 3.0])
)
def test_proximal_gradient_finds_the_same_point(seed, size, l1, l2):
    function, _ = quadratic(size, 20.0, seed)
    start = torch.zeros(size, dtype=torch.float64)
    outcome = minimise(function, start, TIGHT, penalty=Penalty(l1, l2))
    expected = proximal_gradient(function, start, l1, l2, 600, 1 / (20 + 2 * l2 + 1))
    torch.testing.assert_close(outcome.model, expected, rtol=0, atol=1e-5)
    # Exact zeros, not small numbers.
    assert torch.equal(outcome.model == 0, expected.abs() < 1e-8)


def test_orthogonal_lasso_is_soft_thresholding():
    target = torch.tensor([3.0, -2.0, 0.5, -0.5, 0.0, 0.9], dtype=torch.float64)
    outcome = minimise(
        lambda w: (0.5 * (w - target).square().sum(), w - target),
        torch.ones_like(target),
        TIGHT,
        penalty=Penalty(l1=1.0),
    )
    expected = torch.tensor([2.0, -1.0, 0, 0, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(outcome.model, expected, rtol=0, atol=1e-9)
    assert int((outcome.model == 0).sum()) == 4


def test_the_same_lasso_as_scikit_learn():
    data = examples(80, 20, seed=4)
    response = data.features @ torch.linspace(-2, 2, 20, dtype=torch.float64) + data.labels

    def function(w):
        residual = data.features @ w - response
        return 0.5 * residual.square().sum(), data.features.T @ residual

    theirs = Lasso(alpha=40 / 80, fit_intercept=False, tol=1e-14, max_iter=10**5)
    theirs.fit(data.features.numpy(), response.numpy())
    ours = minimise(function, torch.zeros(20, dtype=torch.float64), TIGHT, penalty=Penalty(l1=40.0))
    np.testing.assert_allclose(ours.model.numpy(), theirs.coef_, atol=1e-6)
    assert np.array_equal(ours.model.numpy() == 0, theirs.coef_ == 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_same_sparse_logistic_regression_as_scikit_learn(dtype):
    data = examples(300, 60, seed=5)
    # Before scikit-learn 1.8 a name said which penalty is meant; since then the ratio alone does.
    named = LogisticRegression().penalty != "deprecated"
    sparse = {"penalty": "l1"} if named else {"l1_ratio": 1.0}
    theirs = LogisticRegression(
        **sparse, C=1 / 4.0, solver="saga", fit_intercept=False, tol=1e-10, max_iter=20000
    )
    theirs.fit(data.features.numpy(), data.labels.numpy())
    function = logistic(Examples(data.features.to(dtype), data.labels.to(dtype)))
    ours = minimise(function, torch.zeros(60, dtype=dtype), TIGHT, penalty=Penalty(l1=4.0))
    assert ours.converged
    accuracy = 1e-6 if dtype == torch.float64 else 5e-3
    np.testing.assert_allclose(ours.model.double().numpy(), theirs.coef_[0], atol=accuracy)
    theirs_there = torch.from_numpy(theirs.coef_[0])
    value = float(logistic(data)(theirs_there)[0] + 4.0 * theirs_there.abs().sum())
    assert ours.value == pytest.approx(value, rel=1e-9 if dtype == torch.float64 else 1e-5)


def test_without_l1_it_agrees_with_lbfgs():
    function = logistic(examples(200, 10, seed=6))
    start = torch.zeros(10, dtype=torch.float64)
    ours = minimise(function, start, TIGHT, penalty=Penalty(l2=0.1))
    other = minimise(function, start, LBFGS(tolerance=1e-9), penalty=Penalty(l2=0.1))
    torch.testing.assert_close(ours.model, other.model, rtol=0, atol=1e-6)


def test_excluded_parameters_may_cross_zero_and_stay_dense():
    target = torch.tensor([0.5, -0.5, 0.5, -0.5], dtype=torch.float64)
    layout = Layout(("free", "priced"), (torch.Size([2]), torch.Size([2])))
    start = torch.tensor([-4.0, 4.0, -4.0, 4.0], dtype=torch.float64)
    objective = Function(lambda w: (0.5 * (w - target).square().sum(), w - target), start)
    objective.layout = layout
    objective.at = lambda vector: vector
    outcome = loop.minimise(objective, TIGHT, penalty=Penalty(l1={"priced": 1.0}))
    expected = torch.tensor([0.5, -0.5, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(outcome.model, expected, rtol=0, atol=1e-8)


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6), st.floats(0.1, 2))
def test_the_pseudo_gradient_is_the_steepest_descent(entries, l1):
    # By the definition: of the left and right derivative, the one that lets the value fall.
    gradient = torch.tensor(entries, dtype=torch.float64)
    vector = torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 1e-300], dtype=torch.float64)
    found = pseudo_gradient(vector, gradient, l1, torch.empty_like(vector))
    for g, w, answer in zip(entries, vector.tolist(), found.tolist(), strict=True):
        left = g - l1 if w <= 0 else g + l1
        right = g + l1 if w >= 0 else g - l1
        expected = left if left > 0 else right if right < 0 else 0.0
        assert answer == pytest.approx(expected, abs=1e-12)
    laid = torch.full_like(vector, l1)
    again = pseudo_gradient(vector, gradient, laid, torch.empty_like(vector))
    assert torch.equal(again, found)


@pytest.mark.parametrize("change", [float("nan"), float("inf"), 5.0, 1e-9, -0.5])
def test_a_refused_step_always_shrinks(change):
    assert 0.1 <= shrinkage(change, -1.0) <= 0.5


def test_a_region_without_numbers_is_avoided():
    def function(x):
        return (x - 0.1 * x.log()).sum(), 1 - 0.1 / x

    outcome = minimise(
        function, torch.full((2,), 5.0, dtype=torch.float64), TIGHT, penalty=Penalty(l1=1.0)
    )
    torch.testing.assert_close(outcome.model, torch.full((2,), 0.05, dtype=torch.float64))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_point_whose_value_or_gradient_is_no_number_is_not_accepted(bad):
    def in_value(x):
        return ((x - 1).square().sum() if x[0] > 0.9 else torch.tensor(bad)), 2 * (x - 1)

    def in_gradient(x):
        return (x - 1).square().sum(), 2 * (x - 1) * (1.0 if x[0] > 0.9 else bad)

    for function in (in_value, in_gradient):
        outcome = minimise(function, torch.full((2,), 3.0, dtype=torch.float64), OWLQN(9))
        assert bool(outcome.model.isfinite().all())
        assert np.isfinite(outcome.value)
        assert float(outcome.model[0]) > 0.9


def test_history_must_remember():
    with pytest.raises(TrainingError, match="history=-1"):
        OWLQN(history=-1)
