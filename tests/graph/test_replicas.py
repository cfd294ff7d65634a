"""Components of one structure are found, and lead back to the graph they came from."""

from __future__ import annotations

import numpy as np
import torch

from mrflearn.graph.elimination import find_replicas
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import batch
from support.fields import random_field, tiny_batch, tiny_field


def test_equal_structures_are_put_together_and_others_are_not() -> None:
    fields = [random_field(i, states=(2, 2, 2), scopes=((0, 1), (1, 2))) for i in range(3)]
    other = random_field(9, states=(2, 2, 2), scopes=((0, 1), (0, 2)))
    found = find_replicas(batch([fields[0], other, fields[1], fields[2]]).graph)
    assert sorted(sorted(r.components.tolist()) for r in found) == [[0, 2, 3], [1]]


def test_every_variable_and_factor_is_found_once_where_the_structure_says() -> None:
    for graph in (tiny_batch().graph, tiny_field("disconnected").graph):
        variables, factors = [], []
        for replicas in find_replicas(graph):
            variables += replicas.variables.flatten().tolist()
            for scope, (g, k) in zip(replicas.structure.scopes, replicas.places, strict=True):
                rows = replicas.factors[g][:, k]
                factors += [(g, row) for row in rows.tolist()]
                members = torch.from_numpy(replicas.variables[:, list(scope)])
                assert torch.equal(graph.groups[g].scope[rows], members)
        assert sorted(variables) == list(range(graph.variables))
        assert len(factors) == len(set(factors)) == sum(len(group) for group in graph.groups)


def test_variables_of_a_component_may_lie_anywhere() -> None:
    group = FactorGroup("edges", torch.tensor([[3, 0], [2, 1]]))
    graph = FactorGraph(torch.full((4,), 2), (group,), torch.tensor([0, 1, 1, 0]))
    (found,) = (r for r in find_replicas(graph) if len(r.components))
    assert found.components.tolist() == [0, 1]
    assert found.variables.tolist() == [[0, 3], [1, 2]]
    assert found.structure.scopes == ((1, 0),)


def test_components_without_variables_are_left_out() -> None:
    graph = FactorGraph(torch.tensor([2, 2]), component=torch.tensor([0, 2]))
    (found,) = find_replicas(graph)
    assert found.components.tolist() == [0, 2]


def test_a_part_is_some_of_the_components() -> None:
    (found,) = find_replicas(tiny_batch().graph)
    part = found.part(1, 3)
    assert part.components.tolist() == [1, 2]
    assert np.array_equal(part.variables, found.variables[1:3])
