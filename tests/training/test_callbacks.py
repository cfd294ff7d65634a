from __future__ import annotations

import dataclasses

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import EarlyStopping
from support.functions import minimise
from support.problems import quadratic, rosenbrock

START = torch.full((20,), -1.0, dtype=torch.float64)


def test_a_callback_sees_every_iteration():
    steps = []
    outcome = minimise(rosenbrock, START, LBFGS(max_iterations=7), callbacks=[steps.append])
    assert [step.iteration for step in steps] == list(range(1, 8))
    assert [step.value for step in steps] == [row.value for row in outcome.history[1:]]
    with pytest.raises(dataclasses.FrozenInstanceError):
        steps[0].value = 0.0


def test_the_vector_of_a_step_belongs_to_its_value():
    def check(step):
        assert torch.equal(step.model, step.vector)
        assert float(rosenbrock(step.vector)[0]) == step.value

    minimise(rosenbrock, START, LBFGS(max_iterations=30), callbacks=[check])


def test_a_callback_may_stop_the_training():
    outcome = minimise(
        rosenbrock,
        START,
        LBFGS(),
        callbacks=[lambda step: "that will do" if step.iteration == 4 else None],
    )
    assert (outcome.iterations, outcome.ending) == (4, "callback")
    assert "that will do" in outcome.reason


def scripted(scores):
    """A validation function that gives these scores one after another."""
    remaining = iter(scores)
    return lambda model: next(remaining)


@pytest.mark.parametrize("sign", [1, -1])
def test_early_stopping_keeps_the_best(sign):
    scores = [sign * s for s in (1, 3, 2, 5, 4, float("nan"), 5, 9, 9)]
    vectors = {}
    early = EarlyStopping(scripted(scores), patience=3, higher_is_better=sign > 0)
    keep = lambda step: vectors.update({step.iteration: step.vector.clone()})  # noqa: E731
    outcome = minimise(rosenbrock, START, LBFGS(), callbacks=[early, keep])
    assert (outcome.iterations, outcome.ending) == (7, "validation")
    assert torch.equal(outcome.model, vectors[4])
    assert outcome.value == outcome.history[4].value
    assert "iteration 4" in outcome.reason
    assert "callback" not in outcome.reason
    seen = [row.validation for row in outcome.history]
    assert seen[:6] == [None, *scores[:5]]


def test_early_stopping_checks_only_now_and_then():
    early = EarlyStopping(scripted([1, 2, 1, 1]), patience=2, every=5)
    outcome = minimise(rosenbrock, START, LBFGS(), callbacks=[early])
    assert outcome.iterations == 20
    checked = [row.iteration for row in outcome.history if row.validation is not None]
    assert checked == [5, 10, 15, 20]


def test_the_best_is_kept_when_another_rule_ends_training():
    function, target = quadratic(6, 30)
    start = torch.zeros(6, dtype=torch.float64)
    early = EarlyStopping(lambda v: -abs(float(v.norm() / target.norm()) - 0.5), patience=99)
    outcome = minimise(function, start, LBFGS(), callbacks=[early])
    assert outcome.converged
    best = max(row.validation for row in outcome.history[1:])
    assert -abs(float(outcome.model.norm() / target.norm()) - 0.5) == best
    assert best > outcome.history[-1].validation


def test_settings_can_be_used_twice():
    early = EarlyStopping(lambda v: 1.0, patience=2)
    runs = [minimise(rosenbrock, START, LBFGS(), callbacks=[early]).iterations for _ in range(2)]
    assert runs == [3, 3]


def test_no_score_at_all_hands_out_the_last():
    early = EarlyStopping(lambda v: float("nan"), patience=4)
    outcome = minimise(rosenbrock, START, LBFGS(), callbacks=[early])
    assert outcome.iterations == 4
    assert outcome.value == outcome.history[-1].value


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"every": 0}])
def test_refusals(wrong):
    with pytest.raises(TrainingError, match="1 or more"):
        EarlyStopping(lambda v: 0.0, **wrong)
