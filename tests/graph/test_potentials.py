"""Scores of assignments against sums by hand; batches of fields; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials, batch, dense_potentials
from mrflearn.inference.enumeration import Enumeration
from support.fields import fields, random_field


@given(field=fields(), seed=st.integers(0, 10**6))
def test_scores_are_sums_of_entries(field: Potentials, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(4, field.graph.variables, generator=generator, dtype=torch.float64)
    rows = (draws * field.graph.states).long()
    for row, score in zip(rows.tolist(), field.score(rows)[:, 0].tolist(), strict=True):
        total = 0.0
        for index, group in enumerate(field.graph.groups):
            for scope, table in zip(group.scope.tolist(), field.factor_scores(index), strict=True):
                total += float(table[tuple(row[v] for v in scope)])
        assert score == pytest.approx(total, abs=1e-9)


@given(seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_a_batch_has_the_values_of_its_fields(seeds: list[int]) -> None:
    scopes = ((0,), (0, 1), (1, 0), (1,))
    own = [random_field(seed, states=(2, 3), scopes=scopes) for seed in seeds]
    together = Enumeration()(batch(own)).log_partition
    assert_close(together, torch.cat([Enumeration()(field).log_partition for field in own]))


def test_tables_are_tensors_arrays_or_lists() -> None:
    pair, single = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], [0.0, 1.0]
    tensors = [([0, 1], torch.tensor(pair).double()), ([0], torch.tensor(single).double())]
    expected = Enumeration()(dense_potentials([2, 3], tensors)).log_partition
    for factors in (
        [([0, 1], pair), ([0], single)],
        [([0, 1], np.array(pair)), ([0], np.array(single))],
    ):
        assert_close(Enumeration()(dense_potentials([2, 3], factors)).log_partition, expected)
    graph = FactorGraph([2, 3], [FactorGroup("pairs", [(0, 1)]), FactorGroup("single", [(0,)])])
    assert_close(Enumeration()(Potentials(graph, [[pair], [single]])).log_partition, expected)
    with pytest.raises(GraphError, match="an array of numbers"):
        dense_potentials([2], [([0], ["a", "b"])])


def test_a_batch_keeps_ties_within_each_field() -> None:
    group = FactorGroup.tied("unary", torch.tensor([[0], [1]]))
    graph = FactorGraph(torch.tensor([2, 2]), (group,))
    first, second = (
        Potentials(graph, (DenseTable(torch.tensor([[0.0, score]])),)) for score in (1.0, 5.0)
    )
    found = batch([first, second])
    assert found.score(torch.tensor([1, 1, 1, 0])).tolist() == [2.0, 5.0]


def test_fields_with_other_groups_are_no_batch() -> None:
    field = random_field(0, states=(2, 2), scopes=((0, 1),))
    bare = Potentials(FactorGraph(torch.tensor([2])), ())
    for unlike in ([field, bare], [bare, field]):
        with pytest.raises(GraphError, match="other groups than graph 0"):
            batch(unlike)
    with pytest.raises(GraphError, match="at least one"):
        batch([])


@pytest.mark.parametrize("number", [-1, 1])
def test_a_table_that_is_not_there_is_named(number: int) -> None:
    group = FactorGroup("unary", torch.tensor([[0], [0]]), torch.tensor([0, number]))
    graph = FactorGraph(torch.tensor([2]), (group,))
    with pytest.raises(GraphError, match=f"reads table {number}, but there are 1"):
        Potentials(graph, (DenseTable(torch.zeros(1, 2)),))


@pytest.mark.parametrize("other", [torch.float32, torch.int64])
def test_tables_are_of_one_type(other: torch.dtype) -> None:
    tables = (torch.zeros(2, dtype=torch.float64), torch.zeros(2, 2, dtype=other))
    with pytest.raises(GraphError, match="of one type in all tables"):
        dense_potentials([2, 2], [((0,), tables[0]), ((0, 1), tables[1])])
    with pytest.raises(GraphError, match=r"types torch.int64: scores are floating-point"):
        dense_potentials([2], [((0,), torch.tensor([0, 1]))])


def test_numbers_that_are_no_scores_are_named() -> None:
    graph = FactorGraph([2, 2], (FactorGroup("pair", [[0, 1]]),))  # type: ignore[arg-type]
    for bad in (math.nan, math.inf):
        table = torch.tensor([[0.0, 1.0], [bad, -torch.inf]])
        with pytest.raises(GraphError, match=rf"factor 1, over .*\[0, 1\].* at \(1, 0\) is {bad}"):
            dense_potentials([2, 2], [((0, 1), torch.zeros(2, 2)), ((0, 1), table)])
        with pytest.raises(GraphError, match=r"table 0: the entry at \(1, 0\)"):
            Potentials(graph, (table[None],))  # type: ignore[arg-type]
        with pytest.raises(GraphError, match=r"table 0: the entry at \(1, 0\)"):
            Potentials(graph, (DenseTable(table[None]),)).check_numbers()
    with pytest.raises(GraphError, match=r"factor 0, .* at \(1,\) is nan"):
        dense_potentials([2, 3], [([0], [0, math.nan])])


@pytest.mark.parametrize(
    ("factor", "named"),
    [
        ((0, [0, 1]), r"factor 1 is over 0; .*list"),
        (("rain", [0, 1]), r"factor 1 is over 'rain'"),
        ((["rain"], [0, 1]), r"factor 1 is over \['rain'\]"),
        (([0.5], [0, 1]), r"factor 1 is over \[0.5\]"),
        (({0}, [0, 1]), r"factor 1 is over {0}"),  # a set has no order
        ((torch.tensor(0), [0, 1]), "factor 1 is over tensor"),
        (([0], [0, 1], 2), "factor 1 is a pair"),
        (3, "factor 1 is a pair"),
    ],
)
def test_what_is_no_factor_is_named(factor: Any, named: str) -> None:
    with pytest.raises(GraphError, match=named):
        dense_potentials([2, 2], [([1], [0, 1]), factor])


@pytest.mark.parametrize("scope", [(0, 1), range(2), np.arange(2), torch.arange(2)])
def test_scopes_are_any_list_of_numbers(scope: Any) -> None:
    field = dense_potentials([2, 2], [(scope, np.eye(2))])
    assert field.graph.groups[0].scope.tolist() == [[0, 1]]


def test_axes_and_variables_of_a_factor_agree() -> None:
    with pytest.raises(GraphError, match="names 2 variables; its table has 1 axes"):
        dense_potentials([2, 2], [((0, 1), torch.zeros(2))])


def test_an_assignment_of_another_length_is_refused() -> None:
    with pytest.raises(GraphError, match="names 3 states; the graph has 2 variables"):
        random_field(0, states=(2, 2), scopes=()).score(torch.tensor([0, 1, 0]))
