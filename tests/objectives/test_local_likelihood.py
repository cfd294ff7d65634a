"""Local problems that are all but certain keep their small losses, in float32 too."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mrflearn.execution.resources import Threads
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Layout
from mrflearn.objectives.field_objectives import Criterion, Principle, field_objective
from support.labelled_fields import labelled

TOKENS, SCORE, GAP = 2000, 1e4, 40.0


@pytest.mark.parametrize("estimator", ["pl", "edge-pl", "pw", "pwpl"])
def test_small_losses_under_large_scores(estimator: Criterion) -> None:
    nodes = [(token,) for token in range(TOKENS)]
    found = labelled(0, [(TOKENS, {"node": nodes})], everything=True)
    batch = replace(found.batch, states=torch.ones_like(found.batch.states))
    layout = Layout.of(found.field.parameters())
    (cell,) = (own.cell for own in found.field.templates)
    weights = layout.flatten(dict.fromkeys(found.field.parameters(), SCORE + GAP * cell.double()))
    values, slopes = [], []
    for kind in (torch.float32, torch.float64):
        field = LogLinearField.zeros(found.field.templates, kind)
        call = field_objective(field, batch, Principle(estimator), Threads(1))
        answer = call(weights.to(kind))
        values.append(float(answer.value))
        slopes.append(answer.gradient.double())
    # Expected and observed counts, added up apart in float32, would differ by more than this.
    assert values[0] == pytest.approx(values[1], rel=2e-3)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=2e-3, atol=1e-6)


def test_evaluations_do_not_add_up() -> None:
    scopes = {"node": [(0,), (1,), (2,)], "pair": [(0, 1), (1, 2)]}
    found = labelled(1, [(3, scopes)] * 3, everything=True)
    call = field_objective(found.field, found.batch, Principle("pwpl"), Threads(1))
    once = call(found.vector).gradient
    torch.testing.assert_close(call(found.vector).gradient, once)
