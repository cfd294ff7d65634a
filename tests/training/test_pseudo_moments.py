from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn import MarkovField
from mrflearn.errors import DataError, MrflearnError
from mrflearn.features.observations import CliqueCounts, Samples, clique_counts
from mrflearn.graph.builders import chain, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.enumeration import Enumeration
from mrflearn.training.lap import matched_potentials, pseudo_moments


def counted(graph: FactorGraph, seed: int, rows: int = 400) -> CliqueCounts:
    draw = torch.Generator().manual_seed(seed)
    common = torch.randint(2, (rows, 1), generator=draw)
    own = torch.randint(2, (rows, graph.variables), generator=draw)
    copied = torch.rand(rows, graph.variables, generator=draw) < 0.3
    states = torch.where(copied, common, own)
    scopes = [group.scope for group in graph.groups]
    shapes = [graph.shape(group) for group in graph.groups]
    return clique_counts(scopes, shapes, Samples.distinct(states))


TRIPLES = FactorGraph(
    torch.full((5,), 2), (FactorGroup("triple", torch.tensor([[0, 1, 2], [2, 3, 4], [1, 3, 0]])),)
)
GRAPHS = {"grid": grid(3, 3), "triples": TRIPLES}


@pytest.mark.parametrize("name", sorted(GRAPHS))
@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_loopy_beliefs_are_the_moments_of_the_data(name: str, seed: int) -> None:
    graph = GRAPHS[name]
    counts = counted(graph, seed)
    # With factors of single variables uniform messages are the fixed point and do not move; else
    # a factor that holds such a term has to send it round first.
    sweeps = 1 if name == "grid" else 1000
    beliefs = BeliefPropagation(max_sweeps=sweeps)(matched_potentials(graph, counts))
    assert beliefs.residual < 1e-8
    for belief, seen in zip(beliefs.factors, counts.counts, strict=True):
        torch.testing.assert_close(belief, seen / 400)
    assert float(beliefs.log_partition) == pytest.approx(0.0, abs=1e-9)


def test_the_gauge_changes_nothing() -> None:
    graph = GRAPHS["grid"]
    counts = counted(graph, 1)
    plain = Enumeration()(matched_potentials(graph, counts))
    model = Enumeration()(pseudo_moments(graph, counts).model.potentials())
    torch.testing.assert_close(plain.variables, model.variables)


def test_exact_on_a_tree() -> None:
    graph = chain(4)
    counts = counted(graph, 2)
    exact = Enumeration()(pseudo_moments(graph, counts).model.potentials())
    torch.testing.assert_close(exact.factors[1], counts.counts[1] / 400)


def test_as_an_estimator_of_fields() -> None:
    draw = torch.Generator().manual_seed(0)
    samples = torch.randint(2, (300, 9), generator=draw).numpy()
    field = MarkovField("grid:3x3", estimator="pmm").fit(samples)
    assert "closed form" in field.outcome_.reason
    with pytest.raises(MrflearnError, match="takes no l2"):
        MarkovField("grid:3x3", estimator="pmm", l2=0.1).fit(samples)
    with pytest.raises(DataError, match="no row has column 1 = 0"):
        MarkovField("grid:3x3", estimator="pmm", states=2).fit(samples[:2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_field_on_the_gpu() -> None:
    rows = torch.randint(2, (400, 9), generator=torch.Generator().manual_seed(0)).numpy()
    here, there = (
        MarkovField("grid:3x3", estimator="pmm", device=device).fit(rows)
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(torch.tensor(there.couplings_), torch.tensor(here.couplings_))
