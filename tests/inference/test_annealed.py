from __future__ import annotations

import pytest
import torch

from mrflearn.errors import AccuracyWarning, InferenceError
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import DenseTable, Potentials, batch
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.enumeration import Enumeration
from support.fields import random_field, tiny_field
from support.grids import EXACT, ising_grid


def test_a_seed_serves_in_place_of_a_generator() -> None:
    field, method = tiny_field("chain"), AnnealedImportance(chains=32, temperatures=5)
    by_seed = method.estimate(field, seed=3)
    by_generator = method.estimate(field, torch.Generator().manual_seed(3))
    assert torch.equal(by_seed.log_partition, by_generator.log_partition)
    assert not torch.equal(by_seed.log_partition, method.estimate(field).log_partition)


def test_error_bars_cover_over_seeds_and_couplings() -> None:
    # 100 grids at once, as components.  Bars that cover 90 % or more are above 76 of 100 in all but
    # one run of 10,000.
    scales = (0.3, 1.0, 2.0, 4.0, 8.0)
    field = batch([random_ising(grid(3, 3), s, i) for s in scales for i in range(20)])
    truth = Enumeration()(field).log_partition
    method = AnnealedImportance(chains=64, groups=8)
    found = method.estimate(field, torch.Generator().manual_seed(0))
    off = (found.log_partition - truth) / found.standard_error
    assert int((off.abs() <= 2).sum()) > 76
    assert float(found.standard_error.median()) < 0.16  # 0.02 nats per variable
    assert bool(found.reliable.all())
    assert found.kind == "approximation"


def test_error_bars_cover_with_too_few_temperatures() -> None:
    # Two steps for couplings of 8: the weights of almost all chains collapse.
    field = batch([random_ising(grid(3, 3), 8.0, i) for i in range(100)])
    truth = Enumeration()(field).log_partition
    method = AnnealedImportance(chains=32, groups=16, temperatures=2)
    with pytest.warns(AccuracyWarning, match="effective chains"):
        found = method.estimate(field, torch.Generator().manual_seed(0))
    off = (found.log_partition - truth).abs() / found.standard_error
    assert int((off <= 2).sum()) > 76
    warned = ~found.reliable
    assert 0 < int(warned.sum()) < 100
    # Fewer than 2 effective groups of 16: log of the mean and mean of the logs are 0.92 apart.
    assert bool((found.standard_error[warned] > 0.92).all())
    assert float(found.effective_chains[warned].max()) <= 2 * 2


def test_weights_of_single_precision_are_summed_in_double() -> None:
    # A constant of a million nats: float32 would round each step's weight to 1/16 of a nat.
    field = random_ising(grid(3, 3), 0.5, 0)
    truth = Enumeration()(field).log_partition
    tables = [DenseTable(table.dense().float()) for table in field.tables]
    tables[1] = DenseTable(tables[1].dense() + 2.0**17)  # the pairwise group
    shifted = Potentials(field.graph, tuple(tables))
    found = AnnealedImportance().estimate(shifted, torch.Generator().manual_seed(0))
    assert found.log_partition.dtype == torch.float64
    error = float(found.log_partition - 12 * 2.0**17 - truth)
    assert abs(error) < 12 * 2.0**17 * 2.0**-24 + 4 * float(found.standard_error)
    assert float(found.standard_error) < 0.2


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_16x16_grid_within_its_error(scale: float) -> None:
    method = AnnealedImportance()
    found = method.estimate(ising_grid(16, scale), torch.Generator().manual_seed(1))
    error = float(found.standard_error)
    assert error < 0.3
    assert abs(float(found.log_partition) - EXACT[16, scale]) < 3 * error


def test_more_temperatures_make_weights_more_even() -> None:
    field = ising_grid(6, 1.0)
    few, many = (
        AnnealedImportance(chains=128, temperatures=steps).estimate(
            field, torch.Generator().manual_seed(2)
        )
        for steps in (5, 100)
    )
    assert float(few.effective_chains) < float(many.effective_chains)
    assert float(few.standard_error) > float(many.standard_error)


def test_a_field_that_is_flat_has_no_error() -> None:
    field = random_field(0, states=(2, 3), scopes=((0, 1), (0,)), scale=0.0)
    found = AnnealedImportance(chains=8, groups=4).estimate(field, torch.Generator())
    torch.testing.assert_close(found.log_partition, Enumeration()(field).log_partition)
    assert float(found.standard_error) < 1e-6
    assert found.temperatures <= 2
    assert float(found.effective_chains) == pytest.approx(8)


def test_impossible_states_have_no_weight() -> None:
    field = tiny_field("triangle", seed=7, forbidden=0.3)
    truth = Enumeration()(field).log_partition
    found = AnnealedImportance().estimate(field, torch.Generator().manual_seed(3))
    assert abs(float(found.log_partition - truth)) < 4 * float(found.standard_error)


def test_where_nothing_is_possible() -> None:
    never = random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=1.0)
    method = AnnealedImportance(chains=10, groups=5)
    with pytest.warns(AccuracyWarning):
        found = method.estimate(never, torch.Generator())
    assert float(found.log_partition) == -torch.inf
    assert float(found.standard_error) == torch.inf
    assert float(found.effective_chains) == 0
    assert not bool(found.reliable)
    with pytest.raises(InferenceError, match="all 10 chains ended in impossible states"):
        method.sample(never, 2, torch.Generator())


@pytest.mark.parametrize("wrong", [{"groups": 1}, {"chains": 8, "groups": 9}, {"temperatures": 0}])
def test_an_error_bar_needs_groups(wrong: dict[str, int]) -> None:
    with pytest.raises(InferenceError, match=f"{next(iter(wrong))}="):
        AnnealedImportance(**wrong)
