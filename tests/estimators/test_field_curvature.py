"""The curvatures by which likelihoods are scaled equal their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch.testing import assert_close

from mrflearn.estimators.field_training import count_blankets, feature_covariance
from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import ParameterLayout
from mrflearn.objectives.pseudolikelihood import Pseudolikelihood
from support.fields import random_field

SCOPES = ((0,), (1,), (2,), (1, 0), (0, 2), (2, 1, 0))
GRAPH = random_field(0, states=(2, 3, 2), scopes=SCOPES).graph


def samples(graph: FactorGraph, count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(0, int(n), (count,), generator=generator) for n in graph.states]
    return torch.stack(rows, dim=1), torch.rand(count, generator=generator, dtype=torch.float64)


def features(graph: FactorGraph, rows: torch.Tensor) -> np.ndarray:
    """One column a parameter: groups, factors, states other than 0 in order."""
    columns = []
    for group in graph.groups:
        for scope in group.scope.tolist():
            free = [range(1, int(graph.states[v])) for v in scope]
            for states in itertools.product(*free):
                columns.append((rows[:, scope] == torch.tensor(states)).all(dim=1).double())
    return torch.stack(columns, dim=1).numpy()


def test_the_covariance_is_that_of_the_features() -> None:
    rows, weights = samples(GRAPH)
    table = features(GRAPH, rows)
    known = np.cov(table.T, aweights=weights.numpy(), ddof=0) * float(weights.sum())
    found = feature_covariance(GRAPH, Samples.of(rows, weights))
    np.testing.assert_allclose(found, known, atol=1e-9)
    plain = feature_covariance(GRAPH, Samples.of(rows))
    np.testing.assert_allclose(plain, np.cov(table.T, ddof=0) * len(rows), atol=1e-9)


def test_the_conditional_curvature_is_the_hessian_of_pseudolikelihood() -> None:
    rows, weights = samples(GRAPH)
    layout = ParameterLayout.of(GRAPH)
    point = torch.linspace(-1, 1, layout.size, dtype=torch.float64)
    counted = count_blankets(GRAPH, Samples.of(rows, weights))
    assert counted is not None
    found = counted.hessian(point)
    batch = Samples(rows, weights)
    known = torch.autograd.functional.hessian(
        lambda flat: Pseudolikelihood()(layout.model(GRAPH, flat), batch), point
    )
    assert_close(found, known)
