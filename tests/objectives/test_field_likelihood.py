"""Belief propagation in training is as exact as float64, whatever type the weights have."""

from __future__ import annotations

import pytest
import torch

from mrflearn.execution.threads import Threads
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.field_objectives import Principle, field_objective
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
        return objective(found.vector.float().to(kind))


def test_bethe_value_loses_nothing_to_the_type_of_the_weights(document: Labelled) -> None:
    value, gradient = _value_and_gradient(document, torch.float32)
    fine, slope = _value_and_gradient(document, torch.float64)
    # The observed counts and weights are the same numbers: only inference could differ.
    torch.testing.assert_close(value, fine, rtol=0, atol=1e-6)
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-6, atol=1e-5)
