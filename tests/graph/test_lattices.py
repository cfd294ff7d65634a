from __future__ import annotations

import networkx as nx
import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.builders import chimera, complete, cube, grid, torus
from mrflearn.graph.factor_graph import FactorGraph


def as_networkx(graph: FactorGraph) -> nx.Graph:
    built = nx.Graph()
    built.add_nodes_from(range(graph.variables))
    edges = graph.groups[1].scope.tolist()
    built.add_edges_from(edges)
    assert built.number_of_edges() == len(edges)  # no edge twice
    return built


def test_grid_edges_go_node_by_node_right_first_then_down():
    edges = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
    assert [tuple(edge) for edge in grid(2, 3).groups[1].scope.tolist()] == edges


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (3, 1), (2, 2), (3, 4)])
def test_grid_is_networkx_grid(rows, columns):
    ours = as_networkx(grid(rows, columns))
    theirs = nx.grid_2d_graph(rows, columns)
    named = nx.relabel_nodes(theirs, {(i, j): i * columns + j for i, j in theirs})
    assert set(ours.nodes) == set(named.nodes)
    assert set(map(frozenset, ours.edges)) == set(map(frozenset, named.edges))


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (5, 3), (4, 4)])
def test_torus_is_networkx_torus(rows, columns):
    theirs = nx.grid_2d_graph(rows, columns, periodic=True)
    assert nx.is_isomorphic(as_networkx(torus(rows, columns)), theirs)


def test_short_sides_of_a_torus_are_not_wrapped():
    assert nx.is_isomorphic(as_networkx(torus(2, 2)), nx.cycle_graph(4))
    assert nx.is_isomorphic(as_networkx(torus(1, 5)), nx.cycle_graph(5))


def test_cube_is_networkx_lattice_and_numbers_z_fastest():
    ours = as_networkx(cube(2, 3, 4))
    assert nx.is_isomorphic(ours, nx.grid_graph(dim=(4, 3, 2)))
    assert sorted(ours[0]) == [1, 4, 12]


def test_edges_of_a_cube_go_along_z_then_y_then_x():
    assert cube(2, 2, 2).groups[1].scope[:3].tolist() == [[0, 1], [0, 2], [0, 4]]


def chimera_by_hand(m: int, n: int, t: int) -> nx.Graph:
    built = nx.Graph()
    for i in range(m):
        for j in range(n):
            for k in range(t):
                built.add_edges_from(((i, j, 0, k), (i, j, 1, q)) for q in range(t))
                if i + 1 < m:
                    built.add_edge((i, j, 0, k), (i + 1, j, 0, k))
                if j + 1 < n:
                    built.add_edge((i, j, 1, k), (i, j + 1, 1, k))
    return built


@pytest.mark.parametrize(("m", "n", "t"), [(1, 1, 1), (2, 2, 2), (3, 2, 4), (3, 3, 3)])
def test_chimera_by_its_definition(m, n, t):
    theirs = chimera_by_hand(m, n, t)
    number = {(i, j, u, k): ((i * n + j) * 2 + u) * t + k for i, j, u, k in theirs}
    expected = {tuple(sorted((number[a], number[b]))) for a, b in theirs.edges}
    ours = [tuple(edge) for edge in chimera(m, n, t).groups[1].scope.tolist()]
    assert ours == sorted(expected)


def test_chimera_of_the_usual_size_has_the_usual_edges():
    graph = chimera(3, 3, 3)
    assert (graph.variables, len(graph.groups[1])) == (54, 9 * 9 + 2 * 3 * 2 * 3)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_complete_joins_every_pair(n):
    assert nx.is_isomorphic(as_networkx(complete(n)), nx.complete_graph(n))


def test_groups_are_untied_unless_asked():
    untied, tied = grid(3, 3, 4), grid(3, 3, 4, tied=True)
    assert [group.name for group in untied.groups] == ["unary", "pairwise"]
    assert untied.groups[1].table.tolist() == list(range(12))
    assert tied.groups[1].table.unique().tolist() == [0]
    assert untied.groups[0].scope.shape == (9, 1)


def test_unequal_states_make_a_group_for_each_shape():
    graph = grid(1, 4, states=[2, 3, 3, 2])
    assert [(group.name, graph.shape(group)) for group in graph.groups] == [
        ("unary 2", (2,)),
        ("unary 3", (3,)),
        ("pairwise 2x3", (2, 3)),
        ("pairwise 3x2", (3, 2)),
        ("pairwise 3x3", (3, 3)),
    ]


@pytest.mark.parametrize("build", [lambda: grid(0, 3), lambda: cube(2, -1, 2), lambda: complete(0)])
def test_empty_lattices_are_refused(build):
    with pytest.raises(GraphError, match="at least 1"):
        build()


def test_state_counts_must_fit():
    with pytest.raises(GraphError, match="3 state counts were given for 4 variables"):
        grid(2, 2, states=[2, 2, 2])


def test_large_grid_has_the_right_size():
    graph = grid(300, 300)
    assert (graph.variables, len(graph.groups[1])) == (90_000, 179_400)
    assert torch.equal(graph.groups[1].scope[-1], torch.tensor([89_998, 89_999]))
