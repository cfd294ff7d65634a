"""Gauges change the numbers and never the distribution."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.errors import GraphError
from mrflearn.graph.builders import grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.gauges import ising, reference_gauge, zero_sum_gauge
from mrflearn.graph.potentials import DenseTable, Potentials
from support.brute_force import all_probabilities
from support.fields import random_field

# A triple over four variables, its pairs in another order than it, and what they need below them.
HIGHER = ((2, 0, 3), (0, 2), (3, 0), (3, 2), (0,), (1,), (2,), (3,), (1, 2))
SCOPES = ((0,), (1,), (2,), (0, 1), (1, 2), (2, 0), (0, 1))


@given(
    seed=st.integers(0, 10**6),
    states=st.tuples(*[st.integers(1, 4)] * 3),
    gauge=st.sampled_from([reference_gauge, zero_sum_gauge]),
)
def test_the_distribution_stays(seed: int, states: tuple[int, ...], gauge) -> None:
    field = random_field(seed, states=states, scopes=SCOPES, scale=2.0)
    assert_close(all_probabilities(gauge(field)), all_probabilities(field))


@given(
    seed=st.integers(0, 10**6),
    states=st.tuples(*[st.integers(1, 3)] * 4),
    gauge=st.sampled_from([reference_gauge, zero_sum_gauge]),
)
def test_the_distribution_stays_with_larger_cliques(
    seed: int, states: tuple[int, ...], gauge
) -> None:
    field = random_field(seed, states=states, scopes=HIGHER)
    turned = gauge(field)
    assert_close(all_probabilities(turned), all_probabilities(field))
    for before, after in zip(turned.tables, gauge(turned).tables, strict=True):
        assert_close(after.dense(), before.dense())


def test_reference_tables_vanish_at_state_zero_and_zero_sum_tables_sum_to_zero() -> None:
    field = random_field(3, states=(3, 2, 4), scopes=SCOPES)
    for table in reference_gauge(field).tables:
        for axis in range(1, table.dense().ndim):
            assert_close(table.dense().select(axis, 0), table.dense().select(axis, 0) * 0)
    for table in zero_sum_gauge(field).tables:
        for axis in range(1, table.dense().ndim):
            total = table.dense().sum(dim=axis)
            assert_close(total, torch.zeros_like(total), atol=1e-12, rtol=0)


def test_the_round_trip_ends_where_it_began() -> None:
    field = zero_sum_gauge(random_field(5, states=(2, 3, 2), scopes=SCOPES[:-1]))
    back = zero_sum_gauge(reference_gauge(field))
    for before, after in zip(field.tables, back.tables, strict=True):
        assert_close(after.dense(), before.dense())


def test_zero_sum_is_the_spin_form_for_two_states() -> None:
    graph = grid(2, 3, 2)
    fields = torch.randn(6, dtype=torch.float64)
    couplings = torch.randn(7, dtype=torch.float64)
    back = zero_sum_gauge(reference_gauge(ising(graph, fields, couplings)))
    assert_close(back.tables[0].dense()[:, 1], fields)
    assert_close(back.tables[1].dense()[:, 1, 1], couplings)


def test_what_has_no_gauge_is_refused() -> None:
    with pytest.raises(GraphError, match="impossible"):
        reference_gauge(random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=0.9))
    with pytest.raises(GraphError, match="no table of its own"):
        reference_gauge(random_field(0, states=(2, 2), scopes=((0, 1),)))
    with pytest.raises(GraphError, match=r"clique \[0, 1\] has no table"):
        reference_gauge(random_field(0, states=(2, 2, 2), scopes=((0, 1, 2), (0,), (1,), (2,))))


@pytest.mark.parametrize("gauge", [reference_gauge, zero_sum_gauge])
def test_examples_without_variables_stay(gauge) -> None:
    group = FactorGroup("unary", torch.tensor([[0], [1]]))
    graph = FactorGraph(torch.tensor([2, 2]), (group,), torch.tensor([0, 1]), components=4)
    field = Potentials(graph, (DenseTable(torch.ones(2, 2)),))
    assert gauge(field).graph.components == 4


def test_cliques_of_many_variables_are_told_apart_in_large_graphs() -> None:
    # 65536 ** 4 is 2 ** 64: codes of that many digits would all be the same number.
    states = torch.ones(65_536, dtype=torch.int64)
    states[:6] = 2
    five = FactorGroup("five", torch.tensor([[0, 1, 2, 3, 5]]))
    six = FactorGroup("six", torch.tensor([[0, 1, 2, 3, 4, 5]]))
    even = DenseTable(torch.zeros(1, *[2] * 5))
    uneven = torch.zeros(1, *[2] * 6)
    uneven[0, 1, 1, 1, 1, 1, 0] = 1.0
    field = Potentials(FactorGraph(states, (five, six)), (even, DenseTable(uneven)))
    with pytest.raises(GraphError, match=r"the clique \[0, 1, 2, 3, 4\] has no table"):
        reference_gauge(field)
