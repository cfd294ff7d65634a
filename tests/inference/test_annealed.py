from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph.potentials import batch
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.enumeration import Enumeration
from support.fields import random_field, tiny_field
from support.grids import EXACT, ising_grid


def test_the_error_bar_covers_the_truth_as_often_as_it_says() -> None:
    # 200 fields at once, as components: two standard errors should cover some 95 of a hundred.
    states, scopes = (2, 3, 2, 2), ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1,))
    field = batch([random_field(i, states=states, scopes=scopes) for i in range(200)])
    truth = Enumeration()(field).log_partition
    generator = torch.Generator().manual_seed(0)
    found = AnnealedImportance(chains=100, temperatures=10).estimate(field, generator)
    off = (found.log_partition - truth) / found.standard_error
    assert 0.90 <= float((off.abs() < 2).double().mean()) <= 0.99
    assert 0.60 <= float((off.abs() < 1).double().mean()) <= 0.76
    assert found.kind == "approximation"
    assert bool((found.effective_chains <= 100 + 1e-9).all())


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_16x16_grid_within_its_error(scale: float) -> None:
    method = AnnealedImportance(chains=100, temperatures=400)
    found = method.estimate(ising_grid(16, scale), torch.Generator().manual_seed(1))
    error = float(found.standard_error)
    assert error < 0.15
    assert abs(float(found.log_partition) - EXACT[16, scale]) < 3 * error


def test_more_temperatures_make_weights_more_even() -> None:
    field = ising_grid(6, 1.0)
    few, many = (
        AnnealedImportance(100, steps).estimate(field, torch.Generator().manual_seed(2))
        for steps in (5, 100)
    )
    assert float(few.effective_chains) < float(many.effective_chains)
    assert float(few.standard_error) > float(many.standard_error)


def test_independent_variables_have_no_error() -> None:
    field = tiny_field("one variable", seed=1)
    found = AnnealedImportance(10, 3).estimate(field, torch.Generator())
    torch.testing.assert_close(found.log_partition, Enumeration()(field).log_partition)
    assert float(found.standard_error) < 1e-6


def test_impossible_states_have_no_weight() -> None:
    field = tiny_field("triangle", seed=7, forbidden=0.3)
    truth = Enumeration()(field).log_partition
    found = AnnealedImportance(500, 20).estimate(field, torch.Generator().manual_seed(3))
    assert bool((found.log_weights == -torch.inf).any())
    assert abs(float(found.log_partition - truth)) < 4 * float(found.standard_error)


def test_where_nothing_is_possible() -> None:
    never = random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=1.0)
    found = AnnealedImportance(10, 3).estimate(never, torch.Generator())
    assert float(found.log_partition) == -torch.inf
    assert float(found.standard_error) == torch.inf
    assert float(found.effective_chains) == 0
    with pytest.raises(InferenceError, match="all 10 chains ended in impossible states"):
        AnnealedImportance(10, 3).sample(never, 2, torch.Generator())
    with pytest.raises(InferenceError, match="at least 2 chains"):
        AnnealedImportance(chains=1)
