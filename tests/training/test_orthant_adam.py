"""Adam with L1: the minimum of separable problems, exact zeros, and the same bits on resuming."""

from __future__ import annotations

import pytest
import torch

from mrflearn.objectives.base import Autograd
from mrflearn.objectives.problem import Penalty
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.loop import minimise
from mrflearn.training.orthant_adam import OrthantAdam

TARGET = torch.tensor([3.0, -2.0, 0.4, -0.3, 0.0, 1.0], dtype=torch.float64)


class Weights:
    def __init__(self, weights: torch.Tensor) -> None:
        self.weights = weights

    def parameters(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights}

    def with_parameters(self, parameters) -> Weights:
        return Weights(parameters["weights"])


def objective(batches: object = None) -> Autograd:
    start = Weights(torch.full_like(TARGET, 0.1))

    def loss(model: Weights, batch: object) -> torch.Tensor:
        share = 1.0 if batch is None else 0.5
        return share * 0.5 * (model.weights - TARGET).square().sum()

    return Autograd(start, batches if batches is not None else None, loss)


@pytest.mark.parametrize("batches", [None, [1, 2]])
def test_l1_shrinks_and_sets_to_zero(batches):
    found = minimise(
        objective(batches), OrthantAdam(epochs=300, length=300 * (2 if batches else 1), rate=0.1),
        penalty=Penalty(l1=0.5),
    )  # fmt: skip
    expected = TARGET.sign() * (TARGET.abs() - 0.5).clamp_min(0)
    torch.testing.assert_close(found.model.weights, expected, atol=2e-3, rtol=0)
    assert (found.model.weights == 0).tolist() == (expected == 0).tolist()
    value = 0.5 * (expected - TARGET).square().sum() + 0.5 * expected.abs().sum()
    assert found.history[-1].value == pytest.approx(float(value), abs=1e-3)


def test_strengths_of_rows():
    penalty = Penalty(l2={"weights": torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, 1.5])})
    found = minimise(objective(), OrthantAdam(epochs=300, length=300, rate=0.1), penalty=penalty)
    expected = TARGET / torch.tensor([2.0, 1, 1, 1, 1, 4.0])
    torch.testing.assert_close(found.model.weights, expected, atol=2e-3, rtol=0)


def test_without_l1_the_minimum_is_the_target():
    found = minimise(objective(), OrthantAdam(epochs=300, length=300, rate=0.1))
    torch.testing.assert_close(found.model.weights, TARGET, atol=2e-3, rtol=0)


def test_resumed_training_has_the_same_bits(tmp_path):
    place = Checkpoint(tmp_path / "state", every_iterations=1)
    options = {"penalty": Penalty(l1={"weights": 0.5})}
    whole = minimise(objective(), OrthantAdam(epochs=40, length=40), **options)
    minimise(objective(), OrthantAdam(epochs=17, length=40), checkpoint=place, **options)
    again = minimise(
        objective(), OrthantAdam(epochs=40, length=40), checkpoint=place, resume=True, **options
    )
    assert torch.equal(whole.model.weights, again.model.weights)
    assert [row.value for row in whole.history] == [row.value for row in again.history]


def test_rates_rise_and_fall():
    adam = OrthantAdam(rate=1.0, length=100, ramp=10)
    rates = [adam.rate_at(k) for k in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == max(rates[8:12])
    assert rates[100] == pytest.approx(0.0, abs=1e-12)
