"""Conditioning against enumeration of the assignments that agree with the evidence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import GraphError
from mrflearn.graph.evidence import condition, expand_beliefs
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.enumeration import Enumeration
from support.fields import fields, tiny_field


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
    for v, marginal in enumerate(expand_beliefs(field.graph, found.variables, evidence)):
        truth = [
            float(weights[rows[:, v] == s].sum()) if possible else 0.0 for s in range(counts[v])
        ]
        assert marginal == pytest.approx(truth, abs=1e-9)


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
    assert expand_beliefs(graph, beliefs.variables, {0: 1}) == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({4: 0}, "names variable 4"),
        ({-1: 0}, "names variable -1"),
        ({1: 3}, "state 3"),
        ({1: -1}, "-1"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(evidence: dict[int, int], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        condition(tied(), evidence)


def test_examples_without_variables_stay() -> None:
    group = FactorGroup("unary", torch.tensor([[0], [1]]))
    graph = FactorGraph(torch.tensor([2, 2]), (group,), torch.tensor([0, 1]), components=4)
    field = condition(Potentials(graph, (DenseTable(torch.zeros(2, 2)),)), {1: 0})
    expected = torch.tensor([2.0, 1.0, 1.0, 1.0]).log()
    torch.testing.assert_close(Enumeration()(field).log_partition, expected)
