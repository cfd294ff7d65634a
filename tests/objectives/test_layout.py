from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Layout

SHAPES = st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1, max_size=4)


@given(SHAPES)
def test_a_layout_flattens_and_unflattens(shapes):
    parameters = {f"p{i}": torch.randn(shape) for i, shape in enumerate(shapes)}
    layout = Layout.of(parameters)
    vector = layout.flatten(parameters)
    assert len(vector) == sum(layout.sizes)
    back = layout.unflatten(vector)
    assert list(back) == list(parameters)
    assert all(torch.equal(back[name], parameters[name]) for name in parameters)


@given(SHAPES, st.data())
def test_places_are_those_of_the_flat_order(shapes, data):
    parameters = {f"p{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}
    layout = Layout.of(parameters)
    chosen = data.draw(st.sets(st.sampled_from(layout.names)))
    marked = {name: torch.full_like(p, float(name in chosen)) for name, p in parameters.items()}
    places = [layout.place(i) for i in range(sum(layout.sizes))]
    assert len(set(places)) == sum(layout.sizes)
    covered = [place.split("[")[0] in chosen for place in places]
    assert covered == (layout.flatten(marked) == 1).tolist()


def test_place_names_the_entry():
    layout = Layout.of({"bias": torch.zeros(()), "weights": torch.zeros(2, 3)})
    assert layout.place(0) == "bias"
    assert layout.place(6) == "weights[1, 2]"


def test_gradients_flow_back_to_the_flat_vector():
    layout = Layout.of({"a": torch.zeros(2), "b": torch.zeros(1, 2)})
    vector = torch.arange(4.0, requires_grad=True)
    pieces = layout.unflatten(vector)
    (pieces["a"].sum() + 3 * pieces["b"].sum()).backward()
    assert vector.grad.tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"count": torch.zeros(2, dtype=torch.int64)},
        {"a": torch.zeros(1, dtype=torch.float32), "b": torch.zeros(1, dtype=torch.float64)},
    ],
    ids=["none", "integers", "mixed"],
)
def test_only_one_kind_of_float_lies_in_a_vector(parameters):
    with pytest.raises(TrainingError, match="one type on one device"):
        Layout.of(parameters).flatten(parameters)
