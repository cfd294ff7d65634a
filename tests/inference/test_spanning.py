from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph.builders import complete, grid
from mrflearn.inference.tree_reweighted import (
    SpanningEdges,
    complaint,
    edges_of,
    even_appearance,
    heaviest_forest,
)


@st.composite
def graphs(draw: st.DrawFn) -> SpanningEdges:
    """Up to six variables and seven edges, some parallel, some without meaning for cycles."""
    count = draw(st.integers(2, 6))
    edge = st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True)
    ends = draw(st.lists(edge, min_size=1, max_size=7))
    real = draw(st.lists(st.booleans(), min_size=len(ends), max_size=len(ends)))
    return SpanningEdges(np.array(ends), np.array(real), count)


def most_crowded(edges: SpanningEdges, weight: np.ndarray) -> float:
    """The largest excess of weight inside a set over its size less one, by trying all sets."""
    worst = -np.inf
    for size in range(1, edges.variables + 1):
        for subset in itertools.combinations(range(edges.variables), size):
            inside = np.isin(edges.ends, subset).all(axis=1) & edges.real
            worst = max(worst, weight[inside].sum() - (size - 1))
    return float(worst)


@given(edges=graphs())
def test_even_weights_are_valid_and_cover_every_edge(edges: SpanningEdges) -> None:
    weight = even_appearance(edges)
    assert weight.min() > 0
    assert most_crowded(edges, weight) < 1e-9
    assert complaint(edges, weight) is None


@given(edges=graphs(), seed=st.integers(0, 1000))
def test_the_check_is_that_of_all_subsets(edges: SpanningEdges, seed: int) -> None:
    weight = np.random.default_rng(seed).uniform(0.2, 1.0, len(edges.ends)).round(2)
    assert (complaint(edges, weight) is None) == (most_crowded(edges, weight) < 1e-9)


@given(edges=graphs(), seed=st.integers(0, 1000))
def test_the_heaviest_forest_by_trying_all(edges: SpanningEdges, seed: int) -> None:
    gain = np.random.default_rng(seed).uniform(0, 3, len(edges.ends))
    chosen = heaviest_forest(edges, gain)
    assert most_crowded(edges, chosen) < 1e-9
    best = max(
        float(gain[list(forest)].sum())
        for size in range(len(gain) + 1)
        for forest in itertools.combinations(range(len(gain)), size)
        if most_crowded(edges, np.isin(np.arange(len(gain)), forest).astype(float)) < 1e-9
    )
    assert float(gain[chosen > 0].sum()) == pytest.approx(best)


def test_weights_of_a_complete_graph_are_nearly_equal() -> None:
    weight = even_appearance(edges_of(complete(8)))
    assert weight.sum() == pytest.approx(7)
    assert np.abs(weight - 2 / 8).max() < 0.06


def test_a_crowded_corner_is_found_where_the_whole_has_room() -> None:
    edges = edges_of(grid(3, 3))
    weight = np.full(12, 0.5)
    square = [0, 1, 3, 5]  # the edges among nodes 0, 1, 3 and 4
    assert set(edges.ends[square].ravel().tolist()) == {0, 1, 3, 4}
    weight[square] = 0.9
    assert "more edge weight among" in str(complaint(edges, weight))
    weight[square] = 1.5
    assert "at most 1" in str(complaint(edges, weight))
    assert "one each" in str(complaint(edges, weight[1:]))
    assert "a forest has at most 8" in str(complaint(edges, np.full(12, 0.9)))
