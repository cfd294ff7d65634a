"""Neighbourhoods and the structure of marginals, against their definitions clique by clique."""

from __future__ import annotations

from itertools import chain as joined
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import GraphError
from mrflearn.graph import neighbourhood as outside
from mrflearn.graph.builders import chain, chimera, complete, cube, from_networkx, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.neighbourhood import (
    Auxiliary,
    Neighbourhoods,
    blankets,
    neighbourhoods,
)

Cliques = dict[frozenset[int], tuple[frozenset[int], set[frozenset[int]] | None]]


def cliques_of(graph: FactorGraph) -> list[frozenset[int]]:
    return [frozenset(s) for group in graph.groups for s in group.scope.tolist()]


def by_definition(graph: FactorGraph, auxiliary: Auxiliary) -> Cliques:
    """For each clique: its neighbourhood and the sets of others that have terms (None: all)."""
    cliques = cliques_of(graph)
    plain = nx.Graph()
    plain.add_nodes_from(range(graph.variables))
    for clique in cliques:
        plain.add_edges_from(combinations(sorted(clique), 2))
    found: Cliques = {}
    for q in cliques:
        around = frozenset(joined.from_iterable(c for c in cliques if c & q))
        rest = around - q
        every = {frozenset(s) for k in range(1, len(rest) + 1) for s in combinations(rest, k)}
        inside = {c for c in cliques if c <= rest}
        if auxiliary == "dense":
            inside = every
        elif auxiliary == "pairwise":
            inside |= {s for s in every if len(s) <= 2}
        else:
            for piece in nx.connected_components(plain.subgraph(set(plain) - around)):
                touched = rest & set(joined.from_iterable(plain.adj[v] for v in piece))
                inside |= {s for s in every if s <= touched}
        found[q] = (around, None if inside == every else inside)
    return found


def as_found(problems: list[Neighbourhoods]) -> Cliques:
    found: Cliques = {}
    for hood in problems:
        for scope in hood.scope.tolist():
            own = frozenset(scope[: hood.shape.own])
            inside, free = hood.shape.inside, scope[len(scope) - hood.shape.given :]
            sets = None if inside is None else {frozenset(scope[k] for k in s) for s in inside}
            if sets is not None:  # sets of given variables alone go without saying
                assert not any(s <= set(free) for s in sets)
                sets |= {
                    frozenset(s) for k in range(1, len(free) + 1) for s in combinations(free, k)
                }
            assert own not in found
            found[own] = (frozenset(scope), sets)
    return found


@st.composite
def graphs(draw: st.DrawFn) -> FactorGraph:
    count = draw(st.integers(1, 7))
    scope = st.sets(st.integers(0, count - 1), min_size=1, max_size=min(3, count))
    chosen = draw(st.lists(scope.map(frozenset), min_size=1, max_size=9, unique=True))
    states = torch.tensor(draw(st.lists(st.integers(2, 3), min_size=count, max_size=count)))
    shapes: dict[tuple[int, ...], list[list[int]]] = {}
    for clique in chosen:
        order = draw(st.permutations(sorted(clique)))
        shapes.setdefault(tuple(states[order].tolist()), []).append(list(order))
    groups = tuple(FactorGroup(str(k), torch.tensor(s)) for k, s in shapes.items())
    return FactorGraph(states, groups)


@pytest.mark.parametrize("auxiliary", ["exact", "dense", "pairwise"])
@given(graph=graphs())
def test_neighbourhoods_are_as_defined(auxiliary: Auxiliary, graph: FactorGraph) -> None:
    assert as_found(neighbourhoods(graph, auxiliary)) == by_definition(graph, auxiliary)


@pytest.mark.parametrize(
    "graph", [grid(4, 4), grid(2, 7), cube(3, 3, 2), chimera(2, 2, 2), chain(9), complete(5)]
)
@pytest.mark.parametrize("auxiliary", ["exact", "dense", "pairwise"])
def test_lattices_too(graph: FactorGraph, auxiliary: Auxiliary) -> None:
    assert as_found(neighbourhoods(graph, auxiliary)) == by_definition(graph, auxiliary)


def test_pieces_that_meet_far_away_are_found_to_be_one() -> None:
    # The two ends of a long cycle's arc meet only at its far side; those of a path never do.
    ring, _ = from_networkx(nx.cycle_graph(40))
    assert as_found(neighbourhoods(ring)) == by_definition(ring, "exact")
    path = chain(40)
    assert as_found(neighbourhoods(path)) == by_definition(path, "exact")


def test_a_search_cut_short_only_adds_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "VISITS", -1)
    path = chain(40)
    found, exact = as_found(neighbourhoods(path)), by_definition(path, "exact")
    more = 0
    for clique, (around, inside) in exact.items():
        assert found[clique][0] == around
        if found[clique][1] is None or inside is None:
            more += found[clique][1] != inside
            assert found[clique][1] is None
        else:
            assert found[clique][1] >= inside
    assert more > 20


@given(graph=graphs())
def test_terms_belong_to_the_cliques_that_touch(graph: FactorGraph) -> None:
    cliques = cliques_of(graph)
    for hood in [*neighbourhoods(graph, "dense"), *blankets(graph)]:
        for scope, factors in zip(hood.scope.tolist(), hood.factors.tolist(), strict=True):
            own = set(scope[: hood.shape.own])
            assert {cliques[f] for f in factors} == {c for c in cliques if c & own}
            assert list(hood.shape.sizes) == graph.states[scope].tolist()
            for factor, places in zip(factors, hood.shape.touching, strict=True):
                assert cliques[factor] == {scope[place] for place in places}


def test_blankets_keep_the_order_of_every_scope() -> None:
    groups = (FactorGroup("pairs", torch.tensor([[2, 0], [1, 2]])),)
    graph = FactorGraph(torch.tensor([2, 2, 2]), groups)
    for hood in blankets(graph):
        for scope, factors in zip(hood.scope.tolist(), hood.factors.tolist(), strict=True):
            for factor, places in zip(factors, hood.shape.touching, strict=True):
                assert [scope[p] for p in places] == groups[0].scope[factor].tolist()


def test_large_lattices_have_few_shapes() -> None:
    problems = neighbourhoods(grid(60, 60), "exact")
    assert sum(len(hood) for hood in problems) == 3600 + 2 * 60 * 59
    assert len(problems) < 40


def test_what_cannot_be_tabulated_is_refused() -> None:
    star, _ = from_networkx(nx.star_graph(80))
    with pytest.raises(GraphError, match="variable 0 is in 81 cliques"):
        neighbourhoods(star)
    with pytest.raises(GraphError, match="variable 0 is in 81 cliques"):
        blankets(star)
    broom = nx.star_graph(40)
    broom.add_edges_from((1, 100 + k) for k in range(40))
    with pytest.raises(GraphError, match=r"neighbourhood of \[0, 1\] has 81 variables"):
        neighbourhoods(from_networkx(broom)[0])
    twice = FactorGraph(
        torch.tensor([2, 2]), (FactorGroup("pairs", torch.tensor([[0, 1], [1, 0]])),)
    )
    with pytest.raises(GraphError, match="over the same variables"):
        neighbourhoods(twice)


def test_joins_of_terms() -> None:
    shape = neighbourhoods(grid(2, 2, 3), "dense")[0].shape
    for i, a in enumerate(shape.terms):
        for j, b in enumerate(shape.terms):
            clash = ((a != b) & (a > 0) & (b > 0)).any()
            number = shape.cells if clash else np.ravel_multi_index(np.maximum(a, b), shape.sizes)
            assert shape.joins[i, j] == number
