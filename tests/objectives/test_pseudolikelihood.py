"""Conditionals of every variable equal those of the enumerated joint distribution."""

from __future__ import annotations

import torch
from hypothesis import given
from torch.testing import assert_close

from mrflearn.features.observations import Samples
from mrflearn.graph.builders import complete, grid
from mrflearn.graph.potentials import Potentials
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.pseudolikelihood import (
    Pseudolikelihood,
    conditional_scores,
    has_most_pairs,
    is_dense,
    one_hot_pseudolikelihood,
)
from support.brute_force import all_assignments
from support.fields import fields


@given(field=fields())
def test_conditionals_equal_enumeration(field: Potentials) -> None:
    rows = all_assignments(field)
    scores = field.score(rows).squeeze(-1)
    found = conditional_scores(field, rows)
    for v, size in enumerate(field.graph.states.tolist()):
        for state in range(size):
            changed = rows.clone()
            changed[:, v] = state
            # Factors that do not touch v add the same to every state: compare differences.
            ours = found[:, v, state] - found[torch.arange(len(rows)), v, rows[:, v]]
            theirs = field.score(changed).squeeze(-1) - scores
            finite = ours.isfinite() & theirs.isfinite()
            assert_close(ours[finite], theirs[finite])
        assert bool((found[:, v, size:] == -torch.inf).all())


def test_gradient_by_finite_differences() -> None:
    graph = grid(2, 2, 3)
    generator = torch.Generator().manual_seed(1)
    samples = Samples.distinct(torch.randint(3, (20, 4), generator=generator))
    model = TabularModel.zeros(graph)
    values = [torch.randn(v.shape, dtype=v.dtype, generator=generator) for v in model.values]

    def loss(*tables: torch.Tensor) -> torch.Tensor:
        return Pseudolikelihood()(TabularModel(graph, tables), samples)

    assert torch.autograd.gradcheck(loss, [v.requires_grad_() for v in values])


def test_independent_variables_have_their_likelihood() -> None:
    graph = grid(1, 3, 2)
    model = TabularModel.zeros(graph)
    model.values[0][:, 0] = torch.tensor([0.3, -1.0, 2.0])
    rows = torch.tensor([[0, 1, 1], [1, 1, 0]])
    log_p = torch.stack([torch.zeros(3), model.values[0][:, 0]], dim=1).log_softmax(dim=1)
    expected = -sum(log_p[v, s] for row in rows for v, s in enumerate(row))
    found = Pseudolikelihood()(model, Samples(rows, torch.ones(2, dtype=torch.float64)))
    assert_close(found, expected.to(found.dtype))


def test_one_product_gives_the_same_for_unequal_numbers_of_states() -> None:
    graph = complete(5, [2, 4, 2, 3, 4])
    assert has_most_pairs(graph)
    assert not is_dense(graph)
    generator = torch.Generator().manual_seed(1)
    rows = torch.stack([torch.randint(s, (30,), generator=generator) for s in (2, 4, 2, 3, 4)], 1)
    samples = Samples.distinct(rows)
    start = TabularModel.zeros(graph)
    values = [
        torch.randn(v.shape, dtype=v.dtype, generator=generator).requires_grad_()
        for v in start.values
    ]
    losses = [
        loss(TabularModel(graph, tuple(values)), samples)
        for loss in (Pseudolikelihood(), one_hot_pseudolikelihood)
    ]
    assert_close(losses[0], losses[1])
    for one, other in zip(*(torch.autograd.grad(own, values) for own in losses), strict=True):
        assert_close(one, other)
