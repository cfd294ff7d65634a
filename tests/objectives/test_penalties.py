from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Layout
from mrflearn.objectives.problem import Penalty

LAYOUT = Layout(("bias", "weights"), (torch.Size([2]), torch.Size([3])))
VECTOR = torch.tensor([1.0, -2.0, 3.0, 0.0, -0.5], dtype=torch.float64)
PENALTIES = [
    Penalty(),
    Penalty(l2=0.7),
    Penalty(l2={"weights": 0.7}),
    Penalty(l1=0.3),
    Penalty(l1={"bias": 0.3}),
    Penalty(0.3, 0.7),
    Penalty({"weights": 0.3, "bias": 0.1}, {"weights": 0.7, "bias": 0.7}),
]


def strength(given, name):
    return given.get(name, 0.0) if isinstance(given, dict) else given


def slow_value(penalty, vector):
    return sum(
        strength(penalty.l1, name) * abs(w) + strength(penalty.l2, name) * w * w
        for name, piece in LAYOUT.unflatten(vector).items()
        for w in piece.tolist()
    )


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_the_value_is_what_the_docstring_says(penalty):
    flat = penalty.on(LAYOUT, VECTOR)
    value = float(flat.l1_value(VECTOR) + flat.l2_value(VECTOR))
    assert value == pytest.approx(slow_value(penalty, VECTOR), rel=1e-12)
    assert flat.has_l1 == (float(flat.l1_value(torch.ones_like(VECTOR))) > 0)
    assert flat.has_l2 == (float(flat.l2_value(torch.ones_like(VECTOR))) > 0)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=5), st.floats(0.1, 1))
@settings(max_examples=20)
def test_the_gradient_of_l2_by_finite_differences(penalty, entries, share):
    vector = torch.tensor(entries, dtype=torch.float64)
    flat = penalty.on(LAYOUT, vector)
    other = torch.arange(5, dtype=torch.float64)
    gradient = flat.add_l2_gradient(vector, other, share) - other
    for i, direction in enumerate(1e-4 * torch.eye(5, dtype=torch.float64)):
        rise = flat.l2_value(vector + direction) - flat.l2_value(vector - direction)
        assert float(gradient[i]) == pytest.approx(share * float(rise) / 2e-4, abs=1e-8)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["l1", "l2"])
def test_a_strength_is_not_negative(name, wrong):
    for given_strength in (wrong, {"weights": wrong}):
        with pytest.raises(TrainingError, match=">= 0"):
            Penalty(**{name: given_strength})


def test_names_exist():
    with pytest.raises(TrainingError, match="no parameter 'biased'; there are: bias, weights"):
        Penalty(l2={"biased": 1.0}).on(LAYOUT, VECTOR)


@pytest.mark.parametrize("strengths", [0.5, {"bias": 0.5, "weights": 0.25}], ids=str)
def test_a_penalty_in_single_precision_is_summed_in_double(strengths):
    # Each term is exact in float32; their sum, beyond 2^24, is not.
    layout = Layout(("bias", "weights"), (torch.Size([1]), torch.Size([50_000])))
    vector = torch.arange(50_001, dtype=torch.float32) % 1000 + 1
    flat = Penalty(strengths, strengths).on(layout, vector)
    shares = torch.full((50_001,), strength(strengths, "weights"), dtype=torch.float64)
    shares[0] = strength(strengths, "bias")
    assert float(flat.l1_value(vector)) == pytest.approx(float(shares @ vector.double()), rel=1e-14)
    squares = float(shares @ vector.double().square())
    assert float(flat.l2_value(vector)) == pytest.approx(squares, rel=1e-14)
