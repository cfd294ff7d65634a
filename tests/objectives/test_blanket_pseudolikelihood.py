"""Pseudolikelihood from counts of blankets equals that of the rows, value and gradient."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.features.observations import Samples
from mrflearn.graph.builders import grid
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import blankets
from mrflearn.models.tabular import ParameterLayout, TabularModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from mrflearn.objectives.pseudolikelihood import (
    BlanketPseudolikelihood,
    Blankets,
    Pseudolikelihood,
)
from support.fields import random_field

# A pair in both orders, a triple, a variable with no factor, a factor given twice.
SCOPES = ((0,), (1, 0), (0, 2), (3, 2, 1), (2,), (1, 0))
CASES = {
    "any": random_field(0, states=(2, 3, 2, 2, 2), scopes=SCOPES).graph,
    "grid": grid(3, 3),
    "tied": grid(2, 3, 3, tied=True),
}


def both(graph: FactorGraph, seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """(value, gradients ...) by rows and by counts."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.stack(
        [torch.randint(0, int(n), (20,), generator=generator) for n in graph.states], dim=1
    )
    weights = torch.rand(20, generator=generator, dtype=torch.float64)
    zeros = TabularModel.zeros(graph)
    values = tuple(
        torch.randn(v.shape, generator=generator, dtype=torch.float64).requires_grad_(True)
        for v in zeros.values
    )
    model = TabularModel(graph, values)
    by_rows = Pseudolikelihood()(model, Samples(rows, weights))
    layout, counted = ParameterLayout.of(graph), []
    for group in blankets(graph):
        counts = Samples.of(rows, weights).count(group.scope, group.shape.sizes)
        problems = AuxiliaryLikelihood.of(LocalTables(group.shape), counts)
        counted.append(Blankets(problems, layout.terms(group.shape, group.factors)))
    objective = BlanketPseudolikelihood(model, counted, float(weights.sum()))
    found = objective(objective.start)
    total = found.value
    # A variable without a factor is uniform whatever the parameters; only rows speak of it.
    idle = set(range(graph.variables)) - {
        v for g in graph.groups for v in g.scope.view(-1).tolist()
    }
    for variable in idle:
        total = total + weights.sum() * graph.states[variable].double().log()
    return (
        [by_rows, *torch.autograd.grad(by_rows, values)],
        [total, *objective.layout.unflatten(found.gradient).values()],
    )


@given(seed=st.integers(0, 999), name=st.sampled_from(sorted(CASES)))
def test_counts_say_the_same_as_rows(seed: int, name: str) -> None:
    rows, counts = both(CASES[name], seed)
    for a, b in zip(rows, counts, strict=True):
        assert_close(a, b)
