"""Enumeration against a twin that knows only itertools and math."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.enumeration import Enumeration
from support.fields import fields, tiny_batch, tiny_field


def plain_scores(field: Potentials) -> dict[tuple[int, ...], float]:
    """The score of every assignment of a field of one component, entry by entry."""
    scores = {}
    for assignment in itertools.product(*(range(n) for n in field.graph.states.tolist())):
        total = 0.0
        for group, table in zip(field.graph.groups, field.tables, strict=True):
            for scope, row in zip(group.scope.tolist(), group.table.tolist(), strict=True):
                total += float(table.dense()[(row, *(assignment[v] for v in scope))])
        scores[assignment] = total
    return scores


@given(field=fields(most_variables=4))
def test_every_number_equals_that_of_the_plain_twin(field: Potentials) -> None:
    scores = plain_scores(field)
    top = max(scores.values())
    total = sum(math.exp(s - top) for s in scores.values()) if top > -math.inf else 0.0
    beliefs = Enumeration()(field)
    value = top + math.log(total) if total else -math.inf
    assert float(beliefs.log_partition) == pytest.approx(value, rel=1e-12, abs=1e-12)
    weight = {a: math.exp(s - top) / total if total else 0.0 for a, s in scores.items()}
    for v, count in enumerate(field.graph.states.tolist()):
        expected = [sum(w for a, w in weight.items() if a[v] == s) for s in range(count)]
        assert beliefs.variables[v, :count].tolist() == pytest.approx(expected, abs=1e-12)
    for group, belief in zip(field.graph.groups, beliefs.factors, strict=True):
        for i, scope in enumerate(group.scope.tolist()):
            for cell in itertools.product(*(range(n) for n in belief.shape[1:])):
                inside = [w for a, w in weight.items() if tuple(a[v] for v in scope) == cell]
                assert float(belief[(i, *cell)]) == pytest.approx(sum(inside), abs=1e-12)


@given(field=fields(most_variables=4))
def test_the_ranking_is_that_of_the_plain_twin(field: Potentials) -> None:
    scores = plain_scores(field)
    assignments, values = Enumeration().n_best(field, 5)
    expected = sorted(scores.values(), reverse=True)[:5]
    expected += [-math.inf] * (5 - len(expected))
    assert values[:, 0].tolist() == pytest.approx(expected)
    for assignment, value in zip(assignments.tolist(), values[:, 0].tolist(), strict=True):
        if value > -math.inf:
            assert scores[tuple(assignment)] == pytest.approx(value)
    ranked = [tuple(a) for a, v in zip(assignments.tolist(), values[:, 0], strict=True) if v > -9e9]
    assert len(set(ranked)) == len(ranked)


def test_components_are_ranked_each_on_its_own() -> None:
    field = tiny_batch()
    assignments, values = Enumeration().n_best(field, 3)
    torch.testing.assert_close(field.score(assignments), values)
    assert bool((values[:-1] >= values[1:]).all())


def test_samples_have_the_frequencies_of_whole_assignments() -> None:
    field = tiny_field("triangle", seed=3, forbidden=0.2)
    count = 20_000
    samples = Enumeration().sample(field, count, torch.Generator().manual_seed(0))
    probability = (field.score(samples) - Enumeration()(field).log_partition).exp()
    rows, seen = samples.unique(dim=0, return_counts=True)
    expected = (field.score(rows) - Enumeration()(field).log_partition).exp().squeeze(-1)
    assert bool((probability > 0).all())
    error = 5 * (expected * (1 - expected) / count).sqrt()
    assert bool(((seen / count - expected).abs() <= error).all())


def test_a_field_that_is_too_large_is_refused_with_its_size() -> None:
    graph = FactorGraph(torch.full((2000,), 2))
    reason = Enumeration().refuses(graph)
    assert reason is not None
    assert "10^602.1" in reason
    with pytest.raises(InferenceError, match="JunctionTree"):
        Enumeration()(Potentials(graph, ()))
    assert Enumeration(most_assignments=8).refuses(FactorGraph(torch.full((3,), 2))) is None
    assert Enumeration(most_assignments=7).refuses(FactorGraph(torch.full((3,), 2))) is not None


def test_many_single_state_variables_are_no_burden() -> None:
    graph = FactorGraph(torch.tensor([1] * 100 + [2]))
    beliefs = Enumeration()(Potentials(graph, ()))
    assert float(beliefs.log_partition) == pytest.approx(math.log(2))
    assert beliefs.variables[0].tolist() == [1.0, 0.0]
