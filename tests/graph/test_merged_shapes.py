"""Problems laid into a larger shape have the answers that they have in their own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from mrflearn.features.observations import Columns
from mrflearn.graph import neighbourhood
from mrflearn.graph.builders import chimera, cube, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.neighbourhood import Auxiliary, Neighbourhoods, merged, neighbourhoods
from mrflearn.training.lap import LocalSolver, SolveBlock, blocks_of, lap

GRAPHS = {
    "grid": grid(4, 5),
    "potts": grid(3, 3, 3),
    "cube": cube(3, 3, 2),
    "chimera": chimera(3, 3, 2),
}


def rows_for(graph: FactorGraph, seed: int = 0) -> Columns:
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(200, graph.variables, generator=generator)
    return Columns.of((uniform * graph.states).long())


def answers(
    graph: FactorGraph, problems: list[Neighbourhoods], columns: Columns, solver: LocalSolver
) -> tuple[list[Tensor], float]:
    outcome = lap(graph, blocks_of(problems), SolveBlock(solver, columns))
    return list(outcome.model.values), outcome.value


@pytest.mark.parametrize("auxiliary", ["exact", "dense", "pairwise"])
@pytest.mark.parametrize(("name", "l1"), [*((name, 0.0) for name in GRAPHS), ("grid", 3.0)])
def test_merging_changes_the_time_only(
    name: str, auxiliary: Auxiliary, l1: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbourhood, "PADDING", 1 << 20)
    graph = GRAPHS[name]
    solver = LocalSolver(l2=0.3, l1=l1, tolerance=1e-10)
    apart = neighbourhoods(graph, auxiliary)
    together = merged(apart)
    assert sum(map(len, together)) == sum(map(len, apart))
    assert len(together) < len(apart)
    expected, value = answers(graph, apart, rows_for(graph), solver)
    found, same_value = answers(graph, together, rows_for(graph), solver)
    assert same_value == pytest.approx(value, rel=1e-10)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol=1e-7, rtol=0)


@st.composite
def pairwise_graphs(draw: st.DrawFn) -> FactorGraph:
    count = draw(st.integers(3, 7))
    every = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = draw(st.lists(st.sampled_from(every), min_size=1, max_size=9, unique=True))
    single = FactorGroup("single", torch.arange(count).unsqueeze(1))
    groups = (single, FactorGroup("pairs", torch.tensor(sorted(edges))))
    return FactorGraph(torch.full((count,), 2), groups)


@settings(max_examples=25)
@given(graph=pairwise_graphs(), auxiliary=st.sampled_from(["exact", "dense", "pairwise"]))
def test_on_any_graph(graph: FactorGraph, auxiliary: Auxiliary) -> None:
    solver = LocalSolver(l2=0.3, tolerance=1e-10)
    problems = neighbourhoods(graph, auxiliary)
    expected, value = answers(graph, problems, rows_for(graph), solver)
    found, same_value = answers(graph, merged(problems), rows_for(graph), solver)
    assert same_value == pytest.approx(value, rel=1e-10)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol=1e-7, rtol=0)


def test_a_lattice_is_left_with_a_few_shapes() -> None:
    for auxiliary in ("exact", "dense", "pairwise"):
        assert len(merged(neighbourhoods(grid(18, 18), auxiliary))) <= 3


def test_common_shapes_are_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = neighbourhoods(grid(5, 5), "dense")
    monkeypatch.setattr(neighbourhood, "PADDING", 0)
    assert [hood.shape for hood in merged(problems)] == sorted(
        (hood.shape for hood in problems),
        key=lambda shape: (-shape.cells, -sum(len(h) for h in problems if h.shape == shape)),
    )
