from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.tree_reweighted import TreeReweighted
from support.fields import tiny_field
from support.grids import EXACT, ising_grid

# libDAI's bounds with weights from 100 random trees: side, scale, value.
LIBDAI = [(10, 0.5, 98.617415), (10, 1.0, 126.592476)]


@pytest.mark.parametrize(("side", "scale", "theirs"), LIBDAI)
def test_bounds_are_bounds_and_no_looser_than_those_of_libdai(side, scale, theirs) -> None:
    field = ising_grid(side, scale)
    found = TreeReweighted()(field)
    assert found.converged
    assert found.kind == "upper bound"
    assert EXACT[side, scale] < float(found.log_partition) <= theirs
    tighter = TreeReweighted(weight_steps=5)(field)
    assert tighter.kind == "upper bound"
    assert EXACT[side, scale] < float(tighter.log_partition) < float(found.log_partition) - 1


@pytest.mark.parametrize("shape", ["triangle", "square with chord", "grid 2x3", "parallel factors"])
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_optimised_weights_keep_the_bound(shape: str, scale: float) -> None:
    field = tiny_field(shape, seed=4, scale=scale)
    truth = float(Enumeration()(field).log_partition)
    even = TreeReweighted()(field)
    tight = TreeReweighted(weight_steps=8)(field)
    assert even.kind == tight.kind == "upper bound"
    assert truth <= float(tight.log_partition) <= float(even.log_partition)


def test_the_gradient_is_the_beliefs() -> None:
    field = tiny_field("triangle", seed=3)
    tables = [table.dense().clone().requires_grad_() for table in field.tables]
    method = TreeReweighted(tolerance=1e-13)

    def value(*values: torch.Tensor) -> torch.Tensor:
        return method(Potentials(field.graph, tuple(map(DenseTable, values)))).log_partition

    assert torch.autograd.gradcheck(value, tables, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_given_weights_are_used_or_refused() -> None:
    field = tiny_field("triangle", seed=3)  # of its three edges two are in each spanning tree
    even = TreeReweighted(torch.full((3,), 2 / 3))(field)
    skewed = TreeReweighted(torch.tensor([1.0, 0.5, 0.5]))(field)
    assert even.kind == skewed.kind == "upper bound"
    assert float(even.log_partition) != pytest.approx(float(skewed.log_partition))
    with pytest.raises(InferenceError, match="a forest has at most 2"):
        TreeReweighted(torch.full((3,), 0.7))(field)


def test_a_run_cut_short_claims_no_bound() -> None:
    found = TreeReweighted(max_sweeps=3)(ising_grid(10, 1.0))
    assert not found.converged
    assert found.kind == "approximation"


def test_larger_factors_are_refused() -> None:
    reason = TreeReweighted().refuses(tiny_field("triple factors").graph)
    assert reason is not None
    assert "factors of 3 variables" in reason
    with pytest.raises(InferenceError, match="weight_steps"):
        TreeReweighted(weight_steps=-1)
