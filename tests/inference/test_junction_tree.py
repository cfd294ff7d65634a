"""The junction tree where enumeration cannot follow: known values, refusals, batches, blocks."""

from __future__ import annotations

import pickle
import re

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.graph.builders import complete, from_networkx
from mrflearn.graph.elimination import find_plans
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import DenseTable, Potentials, batch
from mrflearn.inference import clique_batches, junction_tree
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.junction_tree import JunctionTree
from support.fields import SHAPES, fields, random_field, tiny_field
from support.grids import EXACT


def lattice_edges(side: int) -> list[tuple[int, int]]:
    """Node by node, row by row: the edge to the right, then the one below."""
    edges = []
    for node in range(side * side):
        if node % side < side - 1:
            edges.append((node, node + 1))
        if node < side * (side - 1):
            edges.append((node, node + side))
    return edges


def ising(side: int, strength: float, dtype: torch.dtype = torch.float64) -> Potentials:
    """exp(sum h s + sum J s s), s = -1 or 1, h and J uniform in [-1, 1] from seed 0."""
    random = np.random.default_rng(0)
    fields_ = torch.tensor(random.uniform(-1, 1, side * side)).to(dtype)
    edges = torch.tensor(lattice_edges(side))
    couplings = torch.tensor(strength * random.uniform(-1, 1, len(edges))).to(dtype)
    spins = torch.tensor([-1.0, 1.0], dtype=dtype)
    nodes = FactorGroup("nodes", torch.arange(side * side).unsqueeze(-1))
    graph = FactorGraph(torch.full((side * side,), 2), (nodes, FactorGroup("edges", edges)))
    pairs = couplings.reshape(-1, 1, 1) * spins.reshape(2, 1) * spins
    return Potentials(graph, (DenseTable(fields_.unsqueeze(-1) * spins), DenseTable(pairs)))


@pytest.mark.parametrize(("side", "strength"), EXACT, ids=str)
def test_ising_grids_have_their_known_values(side: int, strength: float) -> None:
    beliefs = JunctionTree()(ising(side, strength))
    assert float(beliefs.log_partition) == pytest.approx(EXACT[side, strength], rel=1e-12)


def test_ising_marginals_are_those_of_another_library() -> None:
    marginals = JunctionTree()(ising(10, 1.0)).variables[:, 1]
    assert marginals[:3].tolist() == pytest.approx([0.40677548, 0.04655426, 0.12806661], abs=1e-8)
    assert float(marginals.sum()) == pytest.approx(52.771610, abs=1e-6)


def test_single_precision_keeps_six_digits_on_a_wide_grid() -> None:
    beliefs = JunctionTree()(ising(10, 1.0, torch.float32))
    assert beliefs.log_partition.dtype == torch.float32
    assert float(beliefs.log_partition) == pytest.approx(EXACT[10, 1.0], rel=1e-6)


def test_the_best_state_of_a_grid_beats_all_its_neighbours_and_samples() -> None:
    field = ising(10, 1.0)
    found = JunctionTree().best(field)
    flips = found.assignment ^ torch.eye(100, dtype=torch.int64)
    samples = JunctionTree().sample(field, 500, torch.Generator().manual_seed(0))
    others = field.score(torch.cat([flips, samples]))
    assert bool((others <= found.score + 1e-9).all())
    torch.testing.assert_close(found.score, field.score(found.assignment))


def test_samples_of_a_grid_have_its_marginals_and_its_mean_score() -> None:
    field, count = ising(8, 1.0), 4000
    samples = JunctionTree().sample(field, count, torch.Generator().manual_seed(1))
    beliefs = JunctionTree()(field)
    expected = beliefs.variables[:, 1]
    error = 5 * (expected * (1 - expected) / count).sqrt()
    assert bool(((samples.double().mean(dim=0) - expected).abs() <= error).all())
    scores = field.score(samples)[:, 0]
    mean = sum((b * field.factor_scores(i)).sum() for i, b in enumerate(beliefs.factors))
    assert abs(float(scores.mean() - mean)) < 5 * float(scores.std()) / count**0.5


@given(field=fields(), data=st.data())
def test_blocks_of_any_size_give_the_same_numbers(field: Potentials, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 2, 5, 12]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junction_tree, "BLOCK", size)
        patch.setattr(clique_batches, "BLOCK", size)
        found, best = JunctionTree()(field), JunctionTree().best(field)
    truth = Enumeration()(field)
    torch.testing.assert_close(found.log_partition, truth.log_partition)
    torch.testing.assert_close(found.variables, truth.variables)
    for ours, theirs in zip(found.factors, truth.factors, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(best.score, Enumeration().best(field).score)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deep_and_shallow_components_share_a_batch(shape: str, dtype: torch.dtype) -> None:
    """Linear arithmetic would do for one of them; the other needs logs; a third is impossible."""
    states, scopes = SHAPES[shape]
    scales = {0.1: 0.0, 400.0: 0.1, 1.0: 1.0}
    parts = [
        random_field(i, states=states, scopes=scopes, scale=s, forbidden=f, dtype=dtype)
        for i, (s, f) in enumerate(scales.items())
    ]
    found, truth = JunctionTree()(batch(parts)), Enumeration()(batch(parts))
    near = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(found.log_partition, truth.log_partition, **near)
    torch.testing.assert_close(found.variables, truth.variables, **near)


def test_components_that_do_not_fit_together_are_taken_in_portions() -> None:
    field = batch([tiny_field("square with chord", seed=i) for i in range(7)])
    whole = JunctionTree()(field)
    narrow = JunctionTree(memory_limit=9 * 2**20)  # one component at a time: blocks count too
    assert narrow.refuses(field.graph) is None
    torch.testing.assert_close(narrow(field).log_partition, whole.log_partition)
    torch.testing.assert_close(narrow(field).variables, whole.variables)


def test_a_thousand_equal_components_are_worked_on_as_one() -> None:
    shape = {"states": (3,) * 10, "scopes": tuple((i, i + 1) for i in range(9))}
    many = batch([random_field(i, **shape) for i in range(1000)])
    ((_, replicas),) = find_plans(many.graph)
    assert replicas.components.tolist() == list(range(1000))
    alone = JunctionTree()(random_field(999, **shape))
    torch.testing.assert_close(JunctionTree()(many).log_partition[999:], alone.log_partition)


def test_plans_are_made_once_a_graph() -> None:
    field = tiny_field("triangle")
    assert field.graph.planned(find_plans) is field.graph.planned(find_plans)
    assert pickle.loads(pickle.dumps(field.graph))._plans == {}


def test_a_wide_graph_is_refused_with_width_and_memory() -> None:
    field = ising(20, 1.0)
    reason = JunctionTree(memory_limit=2**28).refuses(field.graph)
    assert reason is not None
    assert re.search(r"width 2[0-2] was found, which takes \d{3} MB", reason)
    assert "BeliefPropagation" in reason
    with pytest.raises(InferenceError, match="memory_limit"):
        JunctionTree(memory_limit=2**28)(field)


def test_a_hopeless_graph_is_refused() -> None:
    reason = JunctionTree().refuses(ising(100, 1.0).graph)
    assert reason is not None
    assert "table over 41 variables" in reason


def test_gradients_of_a_grid_are_its_beliefs() -> None:
    field = ising(4, 1.0)
    tables = [table.dense().clone().requires_grad_() for table in field.tables]
    beliefs = JunctionTree()(Potentials(field.graph, tuple(map(DenseTable, tables))))
    beliefs.log_partition.sum().backward()
    truth = Enumeration()(field)
    for table, belief in zip(tables, truth.factors, strict=True):
        torch.testing.assert_close(table.grad, belief)


def test_a_graph_without_variables_has_one_empty_assignment() -> None:
    empty = Potentials(FactorGraph(torch.zeros(0, dtype=torch.int64)), ())
    assert JunctionTree()(empty).log_partition.tolist() == [0.0]
    assert JunctionTree().sample(empty, 3, torch.Generator()).shape == (3, 0)


def test_a_graph_beyond_all_numbers_is_refused_in_words() -> None:
    # 2 ** 1050 entries are more than a float can count.
    assert "2^1050 entries" in str(JunctionTree().refuses(complete(1050)))


def test_a_hub_of_many_leaves() -> None:
    leaves = 2000
    field = random_ising(from_networkx(nx.star_graph(leaves))[0], seed=1)
    beliefs = JunctionTree()(field)
    own = beliefs.variables[1:]
    torch.testing.assert_close(own.sum(dim=1), torch.ones(leaves, dtype=torch.float64))
    torch.testing.assert_close(beliefs.factors[1].sum(dim=1), own)
