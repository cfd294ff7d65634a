"""Belief propagation in training: as exact as float64, and on one fixed point at a time."""

from __future__ import annotations

import pytest
import torch

from mrflearn.execution.resources import Threads
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Layout
from mrflearn.objectives.field_objectives import Principle, field_objective
from mrflearn.objectives.likelihood import FieldLikelihood
from support.labelled_fields import Labelled, labelled

TOKENS = 2000


@pytest.fixture(scope="module")
def document() -> Labelled:
    """One long chain with edges between far tokens."""
    near = [(t, t + 1) for t in range(TOKENS - 1)]
    far = [(t, t + 50) for t in range(0, TOKENS - 50, 25)]
    return labelled(0, [(TOKENS, {"near": near, "far": far})], states=3)


def _value_and_gradient(found: Labelled, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    field = LogLinearField.zeros(found.field.templates, kind)
    with Threads(1) as threads:
        objective = field_objective(field, found.batch, Principle("bp"), threads)
        found_there = objective(found.vector.float().to(kind))
    return found_there.value, found_there.gradient


def test_bethe_value_loses_nothing_to_the_type_of_the_weights(document: Labelled) -> None:
    value, gradient = _value_and_gradient(document, torch.float32)
    fine, slope = _value_and_gradient(document, torch.float64)
    # The observed counts and weights are the same numbers: only inference could differ.
    torch.testing.assert_close(value, fine, rtol=0, atol=1e-6)
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-6, atol=1e-5)


def test_messages_start_where_training_stands_not_where_it_looked() -> None:
    """All agree on a label: on which one depends on where messages came from."""
    everyone = [(a, b) for a in range(5) for b in range(a)]
    nodes = [(v,) for v in range(5)]
    found = labelled(0, [(5, {"node": nodes, "pair": everyone})], everything=True)
    layout = Layout.of(found.field.parameters())

    def weights(leaning: float) -> torch.Tensor:
        """Equal labels are better than others, and label 1 is better by `leaning`."""
        node, pair = (torch.zeros_like(own) for own in found.field.weights)
        cells = [own.cell for own in found.field.templates]
        node[cells[0] == 1] = leaning
        pair[(cells[1] == 0) | (cells[1] == 3)] = 1.5
        return layout.flatten(dict(zip(found.field.parameters(), (node, pair), strict=True)))

    objective = field_objective(found.field, found.batch, Principle("bp"), Threads(1))
    assert isinstance(objective, FieldLikelihood)
    assert objective.branches
    objective(weights(-1.0))
    objective.commit()
    before = objective(weights(-0.01)).value
    objective(weights(1.0))  # a trial, turned down
    torch.testing.assert_close(objective(weights(-0.01)).value, before, rtol=1e-9, atol=1e-9)
    objective(weights(1.0))
    objective.commit()
    assert abs(float(objective(weights(-0.01)).value - before)) > 1e-3
