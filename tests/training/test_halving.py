"""The rate is halved when the validation score falls, and training ends when it is small."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.training.halving import HalvingSGD
from mrflearn.training.minimising import minimise


def square(vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (vector**2).sum(), 2 * vector


def test_the_rate_halves_only_when_the_score_falls() -> None:
    scores = iter([1.0, 2.0, 1.5, 3.0, 2.0, 1.0, 0.0])
    optimiser = HalvingSGD(lambda _: next(scores), rate=0.1, least=0.03)
    outcome = minimise(square, torch.ones(2, dtype=torch.float64), optimiser)
    assert [row.step for row in outcome.history] == [0.1, 0.1, 0.1, 0.05, 0.05]
    assert outcome.ending == "value"
    assert outcome.model.tolist() == pytest.approx([0.8**3 * 0.9**2] * 2)


def test_a_resumed_training_goes_on_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)

    def score(vector: torch.Tensor) -> float:
        return float(torch.cos(40 * vector).sum())

    whole = minimise(square, start, HalvingSGD(score, rate=0.1, epochs=9))
    path = tmp_path / "checkpoint"
    minimise(square, start, HalvingSGD(score, rate=0.1, epochs=4), checkpoint=path)
    rest = minimise(
        square, start, HalvingSGD(score, rate=0.1, epochs=9), checkpoint=path, resume=True
    )
    assert torch.equal(whole.model, rest.model)
    assert [row.step for row in rest.history] == [row.step for row in whole.history]


def test_a_rate_that_goes_nowhere_is_refused() -> None:
    with pytest.raises(TrainingError, match="HalvingSGD"):
        HalvingSGD(lambda _: 0.0, rate=0.0)
