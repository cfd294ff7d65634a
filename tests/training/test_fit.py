from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from mrflearn.errors import SettingsError, TrainingError
from mrflearn.objectives.problem import Penalty
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import EarlyStopping
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.sgd import Adagrad
from support.functions import fit
from support.problems import LogisticLoss, LogisticModel, blank_model, examples, split

DATA = examples(400, 12, seed=8)
TIGHT = LBFGS(tolerance=1e-10, delta=None)


def test_logistic_regression_as_in_scikit_learn():
    theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000)
    theirs.fit(DATA.features.numpy(), DATA.labels.numpy())
    # C = 2 is a price of 1/4 on w^2; scikit-learn leaves the intercept free.
    penalty = Penalty(l2={"weights": 0.25})
    outcome = fit(blank_model(12), DATA, LogisticLoss(), TIGHT, penalty=penalty)
    assert outcome.converged
    np.testing.assert_allclose(outcome.model.weights.numpy(), theirs.coef_[0], atol=1e-6)
    assert float(outcome.model.intercept) == pytest.approx(theirs.intercept_[0], abs=1e-6)


def test_the_value_is_the_objective_plus_the_penalty():
    outcome = fit(blank_model(12), DATA, LogisticLoss(), TIGHT, penalty=Penalty(l2=0.3))
    model = outcome.model
    price = 0.3 * float(model.weights.square().sum() + model.intercept.square())
    assert outcome.value == pytest.approx(float(LogisticLoss()(model, DATA)) + price, rel=1e-12)


class Loaded(Sequence):
    """Batches that are made only when asked for."""

    def __init__(self, parts):
        self.parts, self.asked = parts, 0

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        self.asked += 1
        return self.parts[index]


@pytest.mark.parametrize("parts", [1, 7])
def test_several_batches_are_one_sum(parts):
    one = fit(blank_model(12), DATA, LogisticLoss(), TIGHT, penalty=Penalty(l2=0.1))
    batches = Loaded(split(DATA, parts))
    many = fit(blank_model(12), batches, LogisticLoss(), TIGHT, penalty=Penalty(l2=0.1))
    torch.testing.assert_close(many.model.weights, one.model.weights, rtol=0, atol=1e-8)
    assert batches.asked == parts * many.evaluations


def test_the_model_given_is_left_alone():
    model = blank_model(12)
    outcome = fit(model, DATA, LogisticLoss(), LBFGS())
    assert float(model.weights.abs().sum()) == 0
    assert isinstance(outcome.model, LogisticModel)
    assert not outcome.model.weights.requires_grad


def test_single_precision_models_stay_single():
    data = examples(400, 12, seed=8, dtype=torch.float32)
    outcome = fit(
        blank_model(12, torch.float32), data, LogisticLoss(), LBFGS(), penalty=Penalty(l2=0.1)
    )
    exact = fit(blank_model(12), DATA, LogisticLoss(), TIGHT, penalty=Penalty(l2=0.1))
    assert outcome.model.weights.dtype == torch.float32
    assert outcome.converged
    torch.testing.assert_close(
        outcome.model.weights.double(), exact.model.weights, rtol=0, atol=1e-3
    )


def test_callbacks_see_the_model():
    valid = examples(200, 12, seed=8)

    def held_out(model):
        assert isinstance(model, LogisticModel)
        return -float(LogisticLoss()(model, valid))

    early = EarlyStopping(held_out, patience=3)
    outcome = fit(blank_model(12), DATA, LogisticLoss(), LBFGS(), callbacks=[early])
    best = max(row.validation for row in outcome.history[1:])
    assert held_out(outcome.model) == pytest.approx(best, rel=1e-12)


def test_every_optimiser_fits_through_the_same_door():
    batches = split(DATA, 10)
    best = fit(blank_model(12), batches, LogisticLoss(), TIGHT, penalty=Penalty(l2=0.2))
    near = fit(
        blank_model(12), batches, LogisticLoss(), Adagrad(0.3), penalty=Penalty(l2=0.2), seed=7
    )
    sparse = fit(blank_model(12), batches, LogisticLoss(), OWLQN(), penalty=Penalty(l1=20.0))
    assert near.value < 1.001 * best.value
    assert 0 < int((sparse.model.weights == 0).sum()) < 12


class Constant:
    def __call__(self, model, batch):
        return torch.tensor(1.0, dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batches": []}, "no batches"),
        ({"objective": Constant()}, "batch 0 does not depend"),
        ({"penalty": Penalty(l2={"bias": 1.0})}, "no parameter 'bias'; there are: weights, inter"),
        ({"resume": True}, "checkpoint='FILE'"),
    ],
)
def test_refusals(change, words):
    call = {
        "model": blank_model(12),
        "batches": DATA,
        "objective": LogisticLoss(),
        "optimiser": LBFGS(),
    }
    with pytest.raises((TrainingError, SettingsError), match=words):
        fit(**(call | change))


def test_a_bad_start_names_the_parameter():
    model = replace(blank_model(12), intercept=torch.tensor(torch.nan, dtype=torch.float64))
    with pytest.raises(TrainingError, match="parameter intercept starts as nan"):
        fit(model, DATA, LogisticLoss(), LBFGS())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("optimiser", [TIGHT, OWLQN(tolerance=1e-10, delta=None)])
def test_the_same_model_on_the_gpu(optimiser):
    penalty = Penalty(l2={"weights": 0.1})
    here = fit(blank_model(12), DATA, LogisticLoss(), optimiser, penalty=penalty)
    data = type(DATA)(*(tensor.cuda() for tensor in DATA))
    start = blank_model(12)
    start = LogisticModel(start.weights.cuda(), start.intercept.cuda())
    there = fit(start, data, LogisticLoss(), optimiser, penalty=penalty)
    torch.testing.assert_close(there.model.weights.cpu(), here.model.weights, rtol=0, atol=1e-7)
