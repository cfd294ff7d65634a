"""What a graph refuses, in words that name the place; and graphs laid side by side."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.builders import chain, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, disjoint_union


def pair(*scopes: tuple[int, int]) -> FactorGroup:
    return FactorGroup("pairs", torch.tensor(scopes))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FactorGraph(torch.tensor([2, 0])), "variable 1 has 0 states"),
        (lambda: FactorGraph(torch.tensor([2, 2]), (pair((0, 2)),)), "factor 0: reads variable 2"),
        (lambda: FactorGraph(torch.tensor([2, 2]), (pair((1, 1)),)), "names a variable twice"),
        (
            lambda: FactorGraph(torch.tensor([2, 2, 3]), (pair((0, 1), (1, 2)),)),
            r"factor 0 has shape \(2, 2\), factor 1 \(2, 3\)",
        ),
        (
            lambda: FactorGraph(torch.tensor([2, 2]), (pair((0, 1)),), torch.tensor([0, 1])),
            "joins variables of different components",
        ),
        (lambda: FactorGroup("flat", torch.tensor([0, 1])), "scope must have two axes"),
        (lambda: FactorGroup("none", torch.zeros(3, 0)), "scope must have two axes"),
        (lambda: FactorGroup("names", [["a", "b"]]), "scope of group 'names'.*'a'"),
        (lambda: FactorGroup("uneven", [[0, 1], [1]]), "scope of group 'uneven'"),
        (lambda: FactorGroup("half", [[0, 0.5]]), "scope of group 'half'.*0.5"),
        (lambda: FactorGraph(["two", 2]), "states of the variables.*'two'"),
        (lambda: FactorGraph(torch.tensor([2.5, 2.0])), "states of the variables.*2.5"),
        (lambda: FactorGraph(2), "states must have one entry a variable"),
        (lambda: FactorGroup("short", torch.zeros(2, 1), torch.zeros(1)), "has 2 factors, but"),
    ],
)
def test_what_contradicts_itself_is_refused(build, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        build()


def test_a_graph_of_pairs_is_told_what_groups_are() -> None:
    with pytest.raises(GraphError, match=r"not this tuple.*dense_potentials"):
        FactorGraph([2, 2, 3], [(0, 1), (1, 2)])


def test_a_union_keeps_examples_apart_and_tables_tied() -> None:
    first, second = chain(2, tied=True), chain(3, tied=True)
    union = disjoint_union([first, second])
    assert union.component.tolist() == [0, 0, 1, 1, 1]
    assert union.groups[1].scope.tolist() == [[0, 1], [2, 3], [3, 4]]
    assert union.groups[1].table.tolist() == [0, 0, 0]


def test_a_union_counts_examples_without_variables() -> None:
    empty = FactorGraph(torch.zeros(0, dtype=torch.int64), chain(0).groups)
    assert disjoint_union([chain(1), empty, empty]).components == 3


def test_a_union_of_unlike_graphs_is_refused() -> None:
    with pytest.raises(GraphError, match="graph 1 of the batch has other groups"):
        disjoint_union([chain(2), FactorGraph(torch.tensor([2]))])
    with pytest.raises(GraphError, match="at least one graph"):
        disjoint_union([])


def test_moving_keeps_everything() -> None:
    graph = grid(2, 2).to("cpu")
    assert graph.components == 1
    assert [group.name for group in graph.groups] == ["unary", "pairwise"]


def test_a_graph_keeps_nothing_that_its_maker_may_change() -> None:
    scope, table, states = torch.tensor([[0, 1]]), torch.tensor([0]), torch.tensor([2, 3])
    graph = FactorGraph(states, (FactorGroup("pair", scope, table),))
    for given in (scope, table, states):
        given += 5
    assert graph.groups[0].scope.tolist() == [[0, 1]]
    assert graph.groups[0].table.tolist() == [0]
    assert graph.states.tolist() == [2, 3]
