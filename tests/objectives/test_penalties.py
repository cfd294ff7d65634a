from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout
from mrflearn.objectives.penalties import L1, L2, ElasticNet, NoPenalty

LAYOUT = Layout(("bias", "weights"), (torch.Size([2]), torch.Size([3])))
VECTOR = torch.tensor([1.0, -2.0, 3.0, 0.0, -0.5], dtype=torch.float64)
PENALTIES = [
    NoPenalty(),
    L2(0.7),
    L2(0.7, exclude=("bias",)),
    L1(0.3),
    L1(0.3, exclude=("weights",)),
    ElasticNet(0.3, 0.7),
    ElasticNet(0.3, 0.7, exclude=("bias",)),
]


def slow_value(penalty, vector):
    l1 = getattr(penalty, "l1", penalty.strength if isinstance(penalty, L1) else 0.0)
    l2 = getattr(penalty, "l2", penalty.strength if isinstance(penalty, L2) else 0.0)
    total = 0.0
    for name, piece in LAYOUT.unflatten(vector).items():
        if name not in getattr(penalty, "exclude", ()):
            total += sum(l1 * abs(w) + l2 * w * w for w in piece.tolist())
    return total


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_the_value_is_what_the_docstring_says(penalty):
    laid = penalty.laid_on(LAYOUT, VECTOR)
    value = float(laid.rough(VECTOR) + laid.smooth(VECTOR))
    assert value == pytest.approx(slow_value(penalty, VECTOR), rel=1e-12)
    assert laid.has_l1 == (float(laid.rough(torch.ones_like(VECTOR))) > 0)
    assert laid.has_l2 == (float(laid.smooth(torch.ones_like(VECTOR))) > 0)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=5), st.floats(0.1, 1))
@settings(max_examples=20)
def test_the_smooth_gradient_by_finite_differences(penalty, entries, share):
    vector = torch.tensor(entries, dtype=torch.float64)
    laid = penalty.laid_on(LAYOUT, vector)
    onto = torch.arange(5, dtype=torch.float64)
    gradient = laid.smooth_gradient(vector, onto, share) - onto
    for i, direction in enumerate(1e-4 * torch.eye(5, dtype=torch.float64)):
        rise = laid.smooth(vector + direction) - laid.smooth(vector - direction)
        assert float(gradient[i]) == pytest.approx(share * float(rise) / 2e-4, abs=1e-8)


@pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [L1, L2, lambda s: ElasticNet(s, 1.0), lambda s: ElasticNet(1, s)])
def test_a_strength_must_be_a_price(kind, strength):
    with pytest.raises(TrainingError, match="0 or more"):
        kind(strength)


def test_exclude_takes_names_that_exist():
    with pytest.raises(TrainingError, match=r"exclude=\('bias',\)"):
        L2(1.0, exclude="bias")
    with pytest.raises(TrainingError, match="no parameter 'biased'"):
        L2(1.0, exclude=("biased",)).laid_on(LAYOUT, VECTOR)
