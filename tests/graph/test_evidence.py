"""Conditioning against enumeration of the assignments that agree with the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import GraphError
from mrflearn.graph.evidence import condition
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials, dense_potentials
from mrflearn.inference import (
    AnnealedImportance,
    Automatic,
    BeliefPropagation,
    Chain,
    Drawing,
    Gibbs,
    JunctionTree,
    MeanField,
    TreeReweighted,
    best_list,
)
from mrflearn.inference.enumeration import Enumeration
from support.fields import fields, random_field, tiny_field


def all_assignments(field: Potentials) -> torch.Tensor:
    counts = [torch.arange(n) for n in field.graph.states.tolist()]
    return torch.cartesian_prod(*counts).reshape(-1, len(counts))


@given(field=fields(), data=st.data())
def test_the_value_sums_over_what_agrees_with_the_evidence(
    field: Potentials, data: st.DataObject
) -> None:
    counts = field.graph.states.tolist()
    observed = data.draw(st.sets(st.integers(0, len(counts) - 1)))
    evidence = {v: data.draw(st.integers(0, counts[v] - 1)) for v in observed}
    rows = all_assignments(field)
    agree = torch.ones(len(rows), dtype=torch.bool)
    for variable, state in evidence.items():
        agree &= rows[:, variable] == state
    expected = torch.logsumexp(field.score(rows[agree])[:, 0], dim=0)
    reduced = condition(field, evidence)
    found = Enumeration()(reduced)
    torch.testing.assert_close(found.log_partition[0], expected)
    weights = (field.score(rows)[:, 0] - expected).exp().masked_fill(~agree, 0.0)
    possible = bool(expected > -torch.inf)
    for v, marginal in enumerate(found.variables.tolist()):
        truth = [
            float(weights[rows[:, v] == s].sum()) if possible else 0.0 for s in range(max(counts))
        ]
        assert marginal == pytest.approx(truth, abs=1e-9)


NETWORK = random_field(
    3,
    states=(2, 3, 2, 3, 2),
    scopes=((0,), (0, 1), (1, 2), (2, 3), (3, 0), (1, 3, 4), (3,), (0, 3)),
)
EVIDENCE = {3: 2, 0: 1}


def agreeing() -> tuple[torch.Tensor, torch.Tensor]:
    """All assignments of the network that agree with the evidence, and their probabilities."""
    rows = all_assignments(NETWORK)
    rows = rows[(rows[:, 3] == 2) & (rows[:, 0] == 1)]
    return rows, NETWORK.score(rows)[:, 0].softmax(0)


@pytest.mark.parametrize(
    "method",
    [JunctionTree(), BeliefPropagation(), TreeReweighted(), MeanField(), Automatic()],
    ids=lambda method: type(method).__name__,
)
def test_marginals_are_over_the_states_that_variables_had(method: Any) -> None:
    rows, chance = agreeing()
    truth = torch.stack([chance @ (rows == s).double() for s in range(3)], dim=1)
    found = method(condition(NETWORK, EVIDENCE)).variables
    assert found[3].tolist() == [0.0, 0.0, 1.0]
    assert found[0].tolist() == [0.0, 1.0, 0.0]
    if not isinstance(method, MeanField):  # given the evidence the network is a tree
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "method",
    [JunctionTree(), BeliefPropagation(), Enumeration(), Automatic()],
    ids=lambda method: type(method).__name__,
)
def test_best_assignments_show_observed_variables_as_observed(method: Any) -> None:
    rows, chance = agreeing()
    found = method.best(condition(NETWORK, EVIDENCE))
    assert found.assignment.tolist() == rows[chance.argmax()].tolist()
    torch.testing.assert_close(found.score, NETWORK.score(found.assignment))


def test_n_best_lists_show_observed_variables_as_observed() -> None:
    rows, chance = agreeing()
    found = best_list(condition(NETWORK, EVIDENCE), 100, JunctionTree())
    order = chance.argsort(descending=True)
    assert [states.tolist() for states, _ in found] == rows[order].tolist()
    expected = NETWORK.score(rows[order])[:, 0].tolist()
    assert [score for _, score in found] == pytest.approx(expected)


@pytest.mark.parametrize(
    "draw",
    [
        lambda field: Drawing()(field, 4000, seed=0).samples,
        lambda field: Gibbs(burn_in=50, thin=3).sample(field, 4000, generator()),
        lambda field: AnnealedImportance(temperatures=50).sample(field, 4000, generator()),
        lambda field: Enumeration().sample(field, 4000, generator()),
    ],
    ids=["Drawing", "Gibbs", "AnnealedImportance", "Enumeration"],
)
def test_samples_show_observed_variables_as_observed(
    draw: Callable[[Potentials], torch.Tensor],
) -> None:
    samples, (rows, chance) = draw(condition(NETWORK, EVIDENCE)), agreeing()
    assert bool((samples[:, 3] == 2).all() & (samples[:, 0] == 1).all())
    share = (samples[:, None] == rows).all(dim=2).double().mean(dim=0)
    torch.testing.assert_close(share, chance, rtol=0, atol=0.05)  # 6 standard errors at the most


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("state", [0, 1])
def test_evidence_may_come_in_parts(state: int) -> None:
    both = Enumeration()(condition(NETWORK, {1: 2, 4: state}))
    parts = Enumeration()(condition(condition(NETWORK, {1: 2}), {4: state}))
    torch.testing.assert_close(parts.log_partition, both.log_partition)
    torch.testing.assert_close(parts.variables, both.variables)
    against = condition(condition(NETWORK, {4: 1 - state}), {4: state})
    assert float(JunctionTree()(against).log_partition) == -torch.inf


def test_scores_are_those_of_the_field_where_the_evidence_holds() -> None:
    rows = all_assignments(NETWORK)
    agree = (rows[:, 3] == 2) & (rows[:, 0] == 1)
    expected = NETWORK.score(rows).masked_fill(~agree[:, None], -torch.inf)
    torch.testing.assert_close(condition(NETWORK, EVIDENCE).score(rows), expected)


def test_evidence_makes_a_graph_narrower() -> None:
    spokes = [([0, i], torch.zeros(2, 2)) for i in range(1, 9)]
    rim = [([i, i + 1], torch.zeros(2, 2)) for i in range(1, 8)]
    wheel = dense_potentials([2] * 9, spokes + rim)
    assert Chain().refuses(wheel.graph) is not None
    assert Chain().refuses(condition(wheel, {0: 1}).graph) is None


def test_no_evidence_changes_nothing() -> None:
    field = tiny_field("chain")
    assert condition(field, {}) is field


def tied() -> Potentials:
    edges = torch.tensor([[0, 1], [1, 2], [2, 3]])
    group = FactorGroup("edges", edges, torch.zeros(3, dtype=torch.int64))
    values = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    return Potentials(FactorGraph(torch.full((4,), 3), (group,)), (DenseTable(values),))


def test_ties_survive_and_gradients_reach_the_shared_table() -> None:
    field = tied()
    values = field.tables[0].dense().clone().requires_grad_()
    reduced = condition(Potentials(field.graph, (DenseTable(values),)), {0: 2, 3: 1})
    Enumeration()(reduced).log_partition.sum().backward()
    step = 1e-5 * torch.randn(values.shape, generator=torch.Generator().manual_seed(1)).double()

    def value(moved: torch.Tensor) -> torch.Tensor:
        moved_field = Potentials(field.graph, (DenseTable(moved),))
        return Enumeration()(condition(moved_field, {0: 2, 3: 1})).log_partition.sum()

    slope = (value(values.detach() + step) - value(values.detach() - step)) / 2
    assert values.grad is not None
    torch.testing.assert_close((values.grad * step).sum(), slope, rtol=1e-6, atol=1e-12)


def test_impossible_evidence_has_no_probability() -> None:
    table = torch.tensor([0.0, -torch.inf], dtype=torch.float64)
    graph = FactorGraph(torch.tensor([2]), (FactorGroup("one", torch.tensor([[0]])),))
    field = Potentials(graph, (DenseTable(table.unsqueeze(0)),))
    beliefs = Enumeration()(condition(field, {0: 1}))
    assert float(beliefs.log_partition) == -torch.inf
    assert beliefs.variables.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({4: 0}, "names variable 4"),
        ({-1: 0}, "names variable -1"),
        ({1: 3}, "state 3"),
        ({1: -1}, "-1"),
        ({"rain": 1}, "'rain': 1.*numbers"),
        ({0: "wet"}, "0: 'wet'.*numbers"),
        ({0: 1.5}, "0: 1.5"),
        ({0: None}, "0: None"),
        ([(0, 1)], "maps variables.*{0: 1}"),
        (None, "None"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(evidence: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        condition(tied(), evidence)


def test_numbers_of_numpy_and_torch_are_evidence() -> None:
    given = condition(tied(), {np.int64(0): torch.tensor(2), 3: np.int8(1)})  # type: ignore[dict-item]
    assert JunctionTree().best(given).assignment[[0, 3]].tolist() == [2, 1]


def test_examples_without_variables_stay() -> None:
    group = FactorGroup("unary", torch.tensor([[0], [1]]))
    graph = FactorGraph(torch.tensor([2, 2]), (group,), torch.tensor([0, 1]), components=4)
    field = condition(Potentials(graph, (DenseTable(torch.zeros(2, 2)),)), {1: 0})
    expected = torch.tensor([2.0, 1.0, 1.0, 1.0]).log()
    torch.testing.assert_close(Enumeration()(field).log_partition, expected)
