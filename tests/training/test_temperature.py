"""Temperatures of drawn sequences are found again."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import TrainingError
from mrflearn.estimators.crf_answers import fit_temperature
from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_drawn_sequences_is_found_again(true_temperature: float) -> None:
    generator = torch.Generator().manual_seed(3)
    steps = Steps.of(torch.randint(1, 9, (5000,), generator=generator))
    unary = 2 * torch.randn(len(steps), 4, generator=generator, dtype=torch.float64)
    table = 2 * torch.randn(4, 4, generator=generator, dtype=torch.float64)
    cooled = unary / true_temperature, table / true_temperature
    drawn = chain_search.sample(*cooled, steps, 1, generator)[0]
    score = unary.gather(1, drawn[:, None])[:, 0]
    score[steps.starting :] += table[drawn[steps.previous], drawn[steps.starting :]]
    truth = steps.totals(score)
    found = fit_temperature(unary, table, steps, truth)
    assert found == pytest.approx(true_temperature, rel=0.05)

    def surprise(temperature: float) -> float:
        value = chain_sums.log_partition(unary / temperature, table / temperature, steps)
        return float((value - truth / temperature).sum())

    assert surprise(found) <= min(surprise(found * 1.01), surprise(found / 1.01))


def test_sequences_that_cannot_be_are_left_out() -> None:
    steps = Steps.of(torch.tensor([1, 1]))
    unary = torch.tensor([[2.0, 0.0], [2.0, -torch.inf]])
    truth = torch.tensor([0.0, -torch.inf])
    assert fit_temperature(unary, torch.zeros(2, 2), steps, truth) > 50.0
    with pytest.raises(TrainingError, match="no held-out sequence is possible"):
        fit_temperature(unary, torch.zeros(2, 2), steps, truth - torch.inf)
