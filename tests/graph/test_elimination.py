"""Elimination orders: valid trees, the sizes they claim, and widths that are known."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.graph.elimination import Elimination, EliminationStructure, find_elimination, follow
from mrflearn.graph.elimination_orders import TooWide, greedy_order, positions_along

structures = st.integers(1, 7).flatmap(
    lambda count: st.builds(
        EliminationStructure,
        st.tuples(*[st.integers(1, 4)] * count),
        st.lists(
            st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True).map(tuple),
            max_size=8,
        ).map(tuple),
    )
)


def lattice(rows: int, columns: int) -> EliminationStructure:
    place = {(i, j): i * columns + j for i in range(rows) for j in range(columns)}
    right = [(place[i, j], place[i, j + 1]) for i in range(rows) for j in range(columns - 1)]
    down = [(place[i, j], place[i + 1, j]) for i in range(rows - 1) for j in range(columns)]
    return EliminationStructure((2,) * (rows * columns), tuple(right + down))


def eliminated(structure: EliminationStructure) -> Elimination:
    found = find_elimination(structure)
    assert isinstance(found, Elimination)
    return found


def total_of_order(structure: EliminationStructure, order: tuple[int, ...]) -> int:
    """The table entries of an order, by playing the elimination out on a plain graph."""
    free = [v for v, count in enumerate(structure.states) if count > 1]
    edges = {frozenset(p) for s in structure.scopes for p in itertools.combinations(s, 2)}
    near = {v: {u for u in free if frozenset((u, v)) in edges} for v in free}
    total = 0
    for variable in order:
        joined = near.pop(variable, set())
        total += structure.states[variable] * math.prod(structure.states[u] for u in joined)
        for other in joined:
            near[other] = (near[other] | joined) - {variable, other}
    return total


@settings(max_examples=50)
@given(structure=structures)
def test_the_tree_is_a_junction_tree(structure: EliminationStructure) -> None:
    found = eliminated(structure)
    count = len(structure.states)
    assert sorted(found.order) == list(range(count))
    place = {variable: k for k, variable in enumerate(found.order)}
    for k, (clique, parent) in enumerate(zip(found.cliques, found.parent, strict=True)):
        assert clique[0] == found.order[k]
        assert [place[v] for v in clique] == sorted(place[v] for v in clique)
        # What a clique hands on must all be found in its parent: the running intersection.
        assert (parent == -1) == (len(clique) == 1)
        if parent >= 0:
            assert set(clique[1:]) <= set(found.cliques[parent])
    for scope in structure.scopes:
        free = {v for v in scope if structure.states[v] > 1}
        assert any(free <= set(clique) for clique in found.cliques)


@settings(max_examples=50)
@given(structure=structures)
def test_the_sizes_are_those_of_the_order(structure: EliminationStructure) -> None:
    found = eliminated(structure)
    sizes = [math.prod(structure.states[v] for v in clique) for clique in found.cliques]
    assert found.total == sum(sizes) == total_of_order(structure, found.order)
    assert found.kept == sum(
        math.prod(structure.states[v] for v in clique[1:]) for clique in found.cliques
    )


@given(structure=structures.filter(lambda s: len(s.states) <= 5))
def test_tiny_graphs_come_near_the_best_of_all_orders(structure: EliminationStructure) -> None:
    orders = itertools.permutations(range(len(structure.states)))
    best = min(total_of_order(structure, order) for order in orders)
    assert best <= eliminated(structure).total <= 1.5 * best


@pytest.mark.parametrize(
    ("structure", "least", "most"),
    [
        (EliminationStructure((2,) * 50, tuple((i, i + 1) for i in range(49))), 1, 1),
        (EliminationStructure((2,) * 50, tuple((i, (i + 1) % 50) for i in range(50))), 2, 2),
        (EliminationStructure((3,) * 6, (tuple(range(6)),)), 5, 5),
        (EliminationStructure((2,) * 8, tuple(itertools.combinations(range(8), 2))), 7, 7),
        (EliminationStructure((2, 1, 2), ((0, 1), (1, 2))), 0, 0),
        (lattice(4, 500), 4, 8),  # cheap enough at any of these to end the search
        (lattice(20, 20), 20, 22),
    ],
    ids=["chain", "cycle", "one factor", "complete", "through a single state", "strip", "20x20"],
)
def test_known_widths(structure: EliminationStructure, least: int, most: int) -> None:
    assert least <= eliminated(structure).width <= most


def test_wide_lattices_get_far_cheaper_orders_than_min_fill_finds() -> None:
    assert eliminated(lattice(20, 20)).total < 2**28


def test_a_search_tries_what_can_pay() -> None:
    """On a square, orders that go along it by half are better than those that do not or only do."""
    square = lattice(12, 12)
    found, near = eliminated(square), square.neighbours()
    for fill in (False, True):
        plain = greedy_order(near, [1.0] * 144, fill=fill, seed=0)
        assert isinstance(plain, list)
        alone = follow(square, near, plain)
        assert isinstance(alone, Elimination)
        assert 2 * found.total < alone.total
    row_by_row = follow(square, near, list(range(144)))
    assert isinstance(row_by_row, Elimination)
    assert 3 * found.total < 2 * row_by_row.total


def test_orders_go_along_a_graph_that_is_long() -> None:
    # Copies of one irregular graph, each variable tied to its next copy: as pedigrees over loci.
    draw = random.Random(0)
    across = [(draw.randrange(i), i) for i in range(1, 12)] + [(0, 7), (2, 9), (3, 11)]
    number = list(range(12 * 40))
    draw.shuffle(number)
    at = {(i, k): number[12 * k + i] for i in range(12) for k in range(40)}
    scopes = [(at[i, k], at[j, k]) for i, j in across for k in range(40)]
    scopes += [(at[i, k], at[i, k + 1]) for i in range(12) for k in range(39)]
    structure = EliminationStructure((2,) * len(number), tuple(scopes))
    plain = greedy_order(structure.neighbours(), [1.0] * len(number), fill=True, seed=0)
    assert isinstance(plain, list)
    alone = follow(structure, structure.neighbours(), plain)
    found = eliminated(structure)
    assert found.width <= 14
    assert not isinstance(alone, Elimination) or 4 * found.total < alone.total


def test_positions_are_the_order_of_the_fiedler_vector() -> None:
    near = lattice(5, 9).neighbours()
    adjacent = np.array([[other in own for other in range(45)] for own in near], dtype=float)
    root = np.sqrt(adjacent.sum(axis=1))
    vectors = np.linalg.eigh(np.eye(45) - adjacent / np.outer(root, root))[1]
    fiedler = vectors[:, 1] / root
    place = positions_along(near)
    rising = np.corrcoef(place, np.argsort(np.argsort(np.round(fiedler, 9), kind="stable")))[0, 1]
    assert abs(rising) > 0.99
    assert sorted(place * 45) == pytest.approx(list(range(45)))


def test_positions_in_parts_that_are_not_connected() -> None:
    near = [{1}, {0, 2}, {1}, set(), {5}, {4, 6}, {5, 7}, {6}]
    place = positions_along(near)
    for part in ([0, 1, 2], [4, 5, 6, 7]):
        own = place[part].tolist()
        assert own == sorted(own) or own == sorted(own, reverse=True)
    assert positions_along([set(), set()]).tolist() == [0.0, 0.0]


def test_the_same_structure_gets_the_same_order() -> None:
    assert eliminated(lattice(6, 6)) == eliminated(lattice(6, 6))


@pytest.mark.parametrize(
    "structure",
    [
        lattice(60, 60),
        EliminationStructure((2,) * 200, (tuple(range(200)),)),
        lattice(3, 3000),
        EliminationStructure((2,) * 20_001, tuple((0, leaf) for leaf in range(1, 20_001))),
    ],
    ids=["lattice", "huge factor", "long strip", "hub"],
)
def test_large_graphs_are_ordered_or_given_up(structure: EliminationStructure) -> None:
    found = find_elimination(structure)
    if isinstance(found, TooWide):
        assert found.variables > 40
        assert found.log2_entries > 40
    else:
        assert found.width <= 8
