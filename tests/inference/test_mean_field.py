from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import ising
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.mean_field import MeanField
from support.brute_force import belief_entropy
from support.fields import tiny_field
from support.grids import EXACT, ising_grid


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_lower_bound_near_the_truth(scale: float) -> None:
    found = MeanField()(ising_grid(10, scale))
    assert found.converged
    truth = EXACT[10, scale]
    assert 0.9 * truth < float(found.log_partition) < truth


def test_independent_variables_are_exact() -> None:
    field = tiny_field("one variable", seed=2)
    truth = Enumeration()(field)
    torch.testing.assert_close(MeanField()(field).log_partition, truth.log_partition)


@pytest.mark.parametrize("shape", ["triangle", "triple factors", "disconnected"])
def test_the_value_is_mean_score_plus_entropy(shape: str) -> None:
    field = tiny_field(shape, seed=1)
    found = MeanField()(field)
    single = found.variables
    own = -torch.where(single > 0, single * single.clamp(min=1e-300).log(), 0.0).sum()
    torch.testing.assert_close(belief_entropy(field, found).sum(), own)


def test_strong_couplings_break_the_symmetry() -> None:
    # All spins up and all down tie; the symmetric start alone would stay at 9 log 2.
    graph = grid(3, 3)
    field = ising(graph, torch.zeros(9).double(), torch.full((12,), 2.0).double())
    found = float(MeanField()(field).log_partition)
    assert 24.0 <= found < float(Enumeration()(field).log_partition)


def test_settings_are_checked() -> None:
    with pytest.raises(InferenceError, match="max_sweeps"):
        MeanField(max_sweeps=0)
