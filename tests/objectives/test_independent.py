"""Coordinates that suit independent variables, against the covariance of such variables."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.features.observations import Samples, clique_counts
from mrflearn.graph.builders import complete
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.neighbourhood import lone_cliques
from mrflearn.models.tabular import feature_covariance
from mrflearn.objectives.independent import independent_coordinates, independent_field
from mrflearn.objectives.problem import Diagonal

ROWS = 1e9


def seen(graph: FactorGraph) -> tuple[list[torch.Tensor], Samples]:
    """Frequencies of independent variables, some of whose states are rare, and all their rows."""
    generator = torch.Generator().manual_seed(0)
    shares = [torch.rand(n, generator=generator).double() ** 3 for n in graph.states.tolist()]
    shares = [(own + 0.01) / (own + 0.01).sum() for own in shares]
    states = torch.tensor(list(itertools.product(*(range(len(own)) for own in shares))))
    parts = [own[column] for own, column in zip(shares, states.T, strict=True)]
    samples = Samples(states, ROWS * torch.stack(parts).prod(dim=0))
    cliques = lone_cliques(graph)
    counts = clique_counts(
        [own.scope for own in cliques], [own.shape.sizes for own in cliques], samples
    )
    return [own / ROWS for own in counts.counts], samples


@pytest.mark.parametrize("sizes", [[2, 2, 2], [2, 5, 3], [4, 4, 6]])
def test_independent_variables_have_the_same_curvature_everywhere(sizes: list[int]) -> None:
    graph = complete(3, sizes)
    data, samples = seen(graph)
    model = independent_field(graph, data)
    scaling = independent_coordinates(model, data, ROWS, 1e-6)
    start = torch.cat([own.flatten() for own in model.values])
    zero = scaling.scaled(start)
    assert float(zero.abs().max()) == 0.0
    step = torch.randn(len(start), generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(scaling.scaled(scaling.natural(step)), step)
    around = scaling.around(scaling.natural(step))
    torch.testing.assert_close(around.scaled(scaling.natural(2 * step)), step)
    unit = torch.eye(len(start), dtype=torch.float64)
    jacobian = torch.stack([scaling.natural(own) - start for own in unit])
    torch.testing.assert_close(scaling.pull_back(step), jacobian @ step)
    curvature = jacobian @ feature_covariance(graph, samples) @ jacobian.T
    # Shares have a thousandth added to each: the rarest, of 0.003, count for a third more.
    values = torch.linalg.eigvalsh(curvature)
    assert 0.4 < float(values[0]) <= float(values[-1]) < 1.1


def test_tables_of_triples_and_shared_ones_have_units_of_their_own() -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    single = FactorGroup("single", torch.arange(3).unsqueeze(1))
    groups = [
        FactorGroup("tied", pairs, torch.zeros(2, dtype=torch.int64)),
        FactorGroup("triple", torch.tensor([[0, 1, 2]])),
    ]
    for group in groups:
        graph = FactorGraph(torch.tensor([3, 3, 3]), (single, group))
        data, _ = seen(graph)
        model = independent_field(graph, data)
        scaling = independent_coordinates(model, data, ROWS, 1.0)
        assert isinstance(scaling, Diagonal)
        assert len(scaling.sizes) == sum(own.numel() for own in model.values)
