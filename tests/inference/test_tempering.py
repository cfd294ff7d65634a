from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph.potentials import Potentials, batch, dense_potentials
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.sampling import Gibbs
from mrflearn.inference.tempering import ParallelTempering
from support.fields import random_field


def magnet(coupling: float, states: int = 2) -> Potentials:
    """Nine variables on a ring that want to be equal: modes of unequal weight."""
    same = coupling * torch.eye(states, dtype=torch.float64)
    first = torch.zeros(states, dtype=torch.float64)
    first[0] = 0.5
    pairs = [([i, (i + 1) % 9], same) for i in range(9)]
    return dense_potentials([states] * 9, [([0], first), *pairs])


@pytest.mark.parametrize("states", [2, 3])
def test_modes_that_stop_gibbs_are_crossed(states: int) -> None:
    field = magnet(6.0, states)
    truth = Enumeration()(field).variables
    run = ParallelTempering(sweeps=600, burn_in=200, chains=24, thin=3).run(field, seed=1)
    assert float(run.r_hat().max()) < 1.1
    lower, upper = run.intervals(0.9999)
    assert bool(((lower <= truth) & (truth <= upper)).all())
    assert float((upper - lower).max()) < 0.3
    plain = Gibbs(sweeps=600, burn_in=200, chains=24, thin=3).run(field, seed=1)
    assert float(plain.r_hat().min()) > 1.5


def test_exchanges_are_counted_for_each_pair_of_temperatures() -> None:
    field = magnet(2.0)
    few = ParallelTempering(2, 0.05, sweeps=200, burn_in=0, thin=10).run(field, seed=0).exchanges
    many = ParallelTempering(10, 0.05, sweeps=200, burn_in=0, thin=10).run(field, seed=0).exchanges
    assert few is not None
    assert many is not None
    assert (few.shape, many.shape) == ((1,), (9,))
    assert 0 <= float(few.max()) < float(many.min()) <= 1


def test_components_exchange_one_by_one_and_impossible_states_stay_out() -> None:
    field = batch(
        [random_field(i, states=(2, 3, 2), scopes=((0, 1), (1, 2)), forbidden=0.2) for i in (1, 2)]
    )
    run = ParallelTempering(4, 0.2, sweeps=900, burn_in=100, chains=16, thin=3).run(field, seed=0)
    assert bool((run.scores > -torch.inf).all())
    torch.testing.assert_close(run.scores[5], field.score(run.states[5]).double())
    lower, upper = run.intervals(0.9999)
    truth = Enumeration()(field).variables
    assert bool(((lower <= truth + 1e-12) & (truth <= upper + 1e-12)).all())


def test_samples_are_as_many_as_asked_for() -> None:
    sampler = ParallelTempering(3, 0.3, burn_in=5, chains=4, thin=2)
    found = sampler.sample(magnet(1.0), 10, seed=3)
    assert found.shape == (10, 9)
    assert torch.equal(found, sampler.sample(magnet(1.0), 10, seed=3))


@pytest.mark.parametrize(
    "wrong", [{"temperatures": 1}, {"least": 0.0}, {"least": 1.0}, {"thin": 0}, {"sweeps": 5}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InferenceError, match=next(iter(wrong))):
        ParallelTempering(**wrong)  # type: ignore[arg-type]
