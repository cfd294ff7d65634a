from __future__ import annotations

import math

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.objectives.problem import Penalty
from mrflearn.training.adam import Adam
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.sgd import AROW, SGD, Adagrad, PassiveAggressive
from support.functions import minimise
from support.problems import examples, logistic, quadratic, split

DATA = examples(600, 8, seed=3)
PARTS = [logistic(batch) for batch in split(DATA, 20)]
START = torch.zeros(8, dtype=torch.float64)
BEST = minimise(logistic(DATA), START, LBFGS(tolerance=1e-10), penalty=Penalty(l2=0.5))
OPTIMISERS = [
    SGD(rate=0.02, epochs=60, decay=0.5),
    SGD(rate=0.03, epochs=60, average_from=5),
    Adagrad(rate=0.5, epochs=60),
    Adam(rate=0.05, epochs=60, decay=0.2, average_from=1, average_over=200),
]


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
def test_minibatches_come_close_to_the_optimum(optimiser):
    outcome = minimise(PARTS, START, optimiser, penalty=Penalty(l2=0.5), seed=1)
    assert outcome.value < BEST.value * 1.002
    assert float((outcome.model - BEST.model).norm()) < 0.05 * float(BEST.model.norm())
    assert outcome.ending == "limit"
    assert outcome.iterations == 60


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
def test_the_value_of_the_outcome_is_that_of_its_model(optimiser):
    outcome = minimise(PARTS, START, optimiser, penalty=Penalty(l2=0.5), seed=1)
    value = float(logistic(DATA)(outcome.model)[0] + 0.5 * outcome.model.square().sum())
    assert outcome.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(rate=0.01, epochs=3), lambda p: torch.optim.SGD(p, lr=0.01)),
        (Adagrad(rate=0.1, epochs=3), lambda p: torch.optim.Adagrad(p, lr=0.1)),
        (Adam(rate=0.1, epochs=3), lambda p: torch.optim.Adam(p, lr=0.1)),
    ],
    ids=["sgd", "adagrad", "adam"],
)
def test_the_steps_are_those_of_torch(ours, theirs):
    function, _ = quadratic(6, 50)
    outcome = minimise(function, torch.ones(6, dtype=torch.float64), ours)
    parameter = torch.ones(6, dtype=torch.float64, requires_grad=True)
    other = theirs([parameter])
    for _ in range(3):
        parameter.grad = function(parameter.detach())[1]
        other.step()
    torch.testing.assert_close(outcome.model, parameter.detach())


def test_an_average_is_the_mean_of_the_iterates():
    function, _ = quadratic(4, 5)
    seen = []
    plain = SGD(rate=0.05, epochs=6)
    minimise(function, START[:4], plain, callbacks=[lambda s: seen.append(s.vector.clone())])
    averaged = minimise(function, START[:4], SGD(rate=0.05, epochs=6, average_from=3))
    torch.testing.assert_close(averaged.model, torch.stack(seen[2:]).mean(dim=0))


def test_the_rate_decays():
    outcome = minimise(PARTS, START, SGD(rate=0.01, epochs=3, decay=1.0))
    last = [0.01 / (1 + epoch + 19 / 20) for epoch in range(3)]
    assert [row.step for row in outcome.history] == pytest.approx(last)


def test_the_rate_falls_as_a_power_of_the_steps():
    outcome = minimise(PARTS, START, SGD(rate=0.01, epochs=3, power=0.4))
    last = [0.01 / (20 * (epoch + 1)) ** 0.4 for epoch in range(3)]
    assert [row.step for row in outcome.history] == pytest.approx(last)


def test_history_holds_the_sums_seen_on_the_way():
    seen = []

    def spy(function):
        def spied(w):
            value, gradient = function(w)
            seen.append((float(value), float(gradient.square().sum())))
            return value, gradient

        return spied

    outcome = minimise([spy(part) for part in PARTS], START, SGD(rate=0.01, epochs=1))
    values, squares = zip(*seen[:20], strict=True)
    (row,) = outcome.history
    assert row.value == pytest.approx(sum(values), rel=1e-12)
    assert row.gradient_norm == pytest.approx(math.sqrt(sum(squares) / 20), rel=1e-12)


def test_the_order_depends_on_seed_and_epoch():
    def orders(seed):
        asked = []

        def part(index):
            return lambda w: (asked.append(index) or w.sum(), torch.zeros_like(w))

        minimise([part(i) for i in range(8)], START, SGD(epochs=3), seed=seed)
        return [asked[i : i + 8] for i in range(0, 24, 8)]

    first = orders(1)
    assert first == orders(1) != orders(2)
    assert all(sorted(epoch) == list(range(8)) for epoch in first)
    assert first[0] != first[1] != first[2]


def test_the_value_rule_stops_it():
    function, _ = quadratic(4, 5)
    optimiser = SGD(rate=0.1, epochs=1000, delta=1e-6, period=5)
    outcome = minimise(lambda w: (function(w)[0] + 1, function(w)[1]), START[:4], optimiser)
    assert outcome.ending == "value"
    assert outcome.iterations < 500


def test_steps_too_long_are_an_error_that_names_the_rate():
    function, _ = quadratic(4, 1000)
    with pytest.raises(TrainingError, match=r"epoch \d+ sum to .*tenth of this rate \(10\)"):
        minimise(function, START[:4], SGD(rate=10, epochs=500))


@pytest.mark.parametrize("kind", [SGD, Adagrad])
def test_refusals(kind):
    with pytest.raises(TrainingError, match="OWLQN"):
        minimise(PARTS, START, kind(), penalty=Penalty(l1=1.0))
    with pytest.raises(TrainingError, match="rate must be positive"):
        kind(rate=0)
    with pytest.raises(TrainingError, match="seed=-1"):
        minimise(PARTS, START, kind(), seed=-1)


def test_passive_aggressive_steps_begin_with_the_usual_settings_of_crfsuite():
    chosen = PassiveAggressive()
    assert (chosen.kind, chosen.rate, chosen.epochs, chosen.average_from) == (1, 1.0, 100, 1)
    assert (AROW().rate, AROW().gamma, AROW().epochs, AROW().average_from) == (1.0, 1.0, 100, None)


def test_a_long_gradient_is_cut_to_its_length():
    function, _ = quadratic(6, 50)
    start = torch.ones(6, dtype=torch.float64)
    outcome = minimise(function, start, Adam(rate=0.1, epochs=3, longest=0.5))
    parameter = start.clone().requires_grad_(True)
    other = torch.optim.Adam([parameter], lr=0.1)
    for _ in range(3):
        parameter.grad = function(parameter.detach())[1]
        torch.nn.utils.clip_grad_norm_([parameter], 0.5)
        other.step()
    torch.testing.assert_close(outcome.model, parameter.detach(), rtol=1e-5, atol=1e-5)


def test_a_mean_that_forgets_gives_each_iterate_its_share():
    function, _ = quadratic(6, 50)
    start, iterates = torch.ones(6, dtype=torch.float64), []
    for epochs in range(1, 6):
        iterates.append(minimise(function, start, SGD(rate=0.01, epochs=epochs)).model)
    found = minimise(function, start, SGD(rate=0.01, epochs=5, average_from=1, average_over=3))
    mean = torch.stack(iterates[:3]).mean(dim=0)
    for own in iterates[3:]:
        mean = mean + (own - mean) / 3
    torch.testing.assert_close(found.model, mean)
