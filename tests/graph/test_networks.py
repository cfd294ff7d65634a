"""UAI networks as potentials: same scores, constants kept, impossible states stay impossible."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.networks import from_uai, to_uai
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.io.uai import UaiNetwork, read_network, write_network
from support.fields import SHAPES, fields, tiny_batch, tiny_field


def product(network: UaiNetwork, assignment: tuple[int, ...]) -> float:
    """The slow twin: figures multiplied one by one."""
    pairs = zip(network.scopes, network.tables, strict=True)
    return math.prod(float(table[tuple(assignment[v] for v in scope)]) for scope, table in pairs)


def every_assignment(states: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, states)))


def assert_same_field(potentials: Potentials, network: UaiNetwork) -> None:
    assignments = every_assignment(network.states)
    scores = potentials.score(torch.tensor(assignments)).sum(dim=-1).exp()
    expected = [product(network, assignment) for assignment in assignments]
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-9)


def random_network(*scopes: tuple[int, ...], states: tuple[int, ...] = (2, 3, 2)) -> UaiNetwork:
    generator = np.random.default_rng(3)
    tables = [generator.random([states[v] for v in scope]) for scope in scopes]
    return UaiNetwork("MARKOV", states, scopes, tuple(map(np.asarray, tables)))


@pytest.mark.parametrize(
    "scopes",
    [
        ((0, 1), (2, 1), (0,)),
        ((), (2, 0), ()),  # constants beside a factor
        ((),),  # nothing but a constant
        ((1,), ()),
        (),
    ],
)
def test_scores_are_logs_of_products(scopes: tuple[tuple[int, ...], ...]) -> None:
    network = random_network(*scopes)
    assert_same_field(from_uai(network), network)


def test_zero_becomes_impossible() -> None:
    network = UaiNetwork("MARKOV", (2, 2), ((0, 1),), (np.array([[0.0, 1.0], [2.0, 0.0]]),))
    table = from_uai(network).tables[0].dense()[0]
    assert table.tolist() == [[-math.inf, 0.0], [math.log(2), -math.inf]]


def test_a_zero_constant_makes_everything_impossible() -> None:
    network = UaiNetwork("MARKOV", (2,), ((), (0,)), (np.array(0.0), np.array([1.0, 2.0])))
    assert from_uai(network).tables[0].dense().tolist() == [[-math.inf, -math.inf]]


def test_a_bare_number_is_refused() -> None:
    with pytest.raises(GraphError, match="without variables"):
        from_uai(UaiNetwork("MARKOV", (), ((),), (np.array(2.0),)))


@given(fields())
def test_there_and_back(field: Potentials) -> None:
    network = to_uai(field)
    assert_same_field(field, network)
    again = from_uai(network)
    for before, after in zip(field.tables, again.tables, strict=True):
        torch.testing.assert_close(after.dense(), before.dense(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
def test_through_a_file(name: str, tmp_path) -> None:
    network = to_uai(tiny_field(name))
    write_network(tmp_path / "field.uai", network)
    again = read_network(tmp_path / "field.uai")
    assert again.states == network.states
    assert again.scopes == network.scopes
    for before, after in zip(network.tables, again.tables, strict=True):
        np.testing.assert_array_equal(after, before)


def test_ties_are_written_out() -> None:
    group = FactorGroup.tied("tied", torch.tensor([[0], [1]]))
    table = DenseTable(torch.tensor([[0.0, 0.5]], dtype=torch.float64))
    field = Potentials(FactorGraph(torch.tensor([2, 2]), (group,)), (table,))
    assert_same_field(field, to_uai(field))
    np.testing.assert_allclose(to_uai(field).tables[1], np.exp([0.0, 0.5]))


def test_a_batch_becomes_one_network() -> None:
    field = tiny_batch()
    assert len(to_uai(field).states) == field.graph.variables


@pytest.mark.parametrize("score", [701.0, -701.0, math.nan, math.inf])
def test_scores_out_of_range_are_refused(score: float) -> None:
    table = DenseTable(torch.tensor([[0.0, score]], dtype=torch.float64))
    graph = FactorGraph(torch.tensor([2]), (FactorGroup("unary", torch.tensor([[0]])),))
    field = Potentials(graph, (table,))
    with pytest.raises(GraphError, match="out of range"):
        to_uai(field)
