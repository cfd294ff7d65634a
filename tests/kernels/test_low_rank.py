from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from mrflearn.kernels import low_rank_cpu as tiles
from mrflearn.kernels.low_rank import row_logsumexp, row_logsumexp_reference
from support.scores import assert_same_value_and_gradient, random_scores, value_and_gradients

sizes = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(1, 5))
seeds = st.integers(0, 2**31)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-5}


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles and shares so small that every edge between them is crossed."""
    monkeypatch.setattr(tiles, "ROWS", 3)
    monkeypatch.setattr(tiles, "COLUMNS", 4)
    monkeypatch.setattr(tiles, "SMALLEST_SHARE", 5)


@pytest.mark.usefixtures("small_tiles", "threads")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@settings(max_examples=20)
@given(shape=sizes, seed=seeds)
def test_tiles_agree_with_the_whole_array(dtype, shape, seed):
    inputs = random_scores(*shape, seed=seed, dtype=dtype)
    weight = torch.randn(shape[0], shape[1], generator=torch.Generator().manual_seed(seed))
    assert_same_value_and_gradient(
        row_logsumexp, row_logsumexp_reference, inputs, weight, tolerance=TOLERANCE[dtype]
    )


@pytest.mark.usefixtures("small_tiles")
@settings(max_examples=20)
@given(shape=sizes, seed=seeds, absent=st.floats(0, 1))
def test_columns_without_weight(shape, seed, absent):
    left, right, bias = random_scores(*shape, seed=seed, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    bias[torch.rand(bias.shape, generator=generator) < absent] = -torch.inf
    assert_same_value_and_gradient(
        row_logsumexp, row_logsumexp_reference, (left, right, bias), tolerance=1e-12
    )


@pytest.mark.parametrize("function", [row_logsumexp, row_logsumexp_reference])
def test_a_row_of_nothing_has_finite_gradients(function):
    left, right, bias = random_scores(2, 4, 5, 3, seed=0, dtype=torch.float32)
    bias[0] = -torch.inf
    value, *gradients = value_and_gradients(function, (left, right, bias))
    assert (value[0] == -torch.inf).all()
    assert value[1].isfinite().all()
    for gradient in gradients:
        assert gradient.isfinite().all()
    assert (gradients[2][0] == 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_whole_tiles_of_the_usual_size(dtype):
    inputs = random_scores(2, 517, 4099, 6, seed=1, dtype=dtype)
    assert_same_value_and_gradient(
        row_logsumexp, row_logsumexp_reference, inputs, tolerance=TOLERANCE[dtype]
    )


def test_huge_scores_neither_overflow_nor_vanish():
    left, right, bias = random_scores(1, 7, 9, 4, seed=2, dtype=torch.float64)
    assert_same_value_and_gradient(
        row_logsumexp, row_logsumexp_reference, (1e3 * left, 1e2 * right, bias), tolerance=1e-9
    )


@pytest.mark.parametrize("function", [row_logsumexp, row_logsumexp_reference])
def test_gradients_by_finite_differences(function):
    left, right, bias = random_scores(2, 4, 5, 3, seed=3, dtype=torch.float64)
    scale = torch.tensor([0.5, 2.0], dtype=torch.float64)
    inputs = [value.requires_grad_() for value in (left, right, bias, scale)]
    assert torch.autograd.gradcheck(function, inputs)


def test_either_side_may_be_shared():
    left, right, bias = random_scores(3, 4, 5, 2, seed=4, dtype=torch.float64)
    many = left * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).view(3, 1, 1)
    assert_same_value_and_gradient(
        row_logsumexp, row_logsumexp_reference, (many, right[:1], bias), tolerance=1e-12
    )


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_one_gradient_alone(wanted):
    inputs = list(random_scores(2, 4, 5, 3, seed=5, dtype=torch.float64))
    everything = value_and_gradients(row_logsumexp, inputs)
    inputs[wanted].requires_grad_()
    row_logsumexp(*inputs).sum().backward()
    torch.testing.assert_close(inputs[wanted].grad, everything[1 + wanted])


def test_values_alone_are_the_same():
    inputs = random_scores(2, 4, 5, 3, seed=6, dtype=torch.float64)
    torch.testing.assert_close(row_logsumexp(*inputs), row_logsumexp_reference(*inputs))


class LargestTensor(TorchDispatchMode):
    """Records the number of entries of the largest tensor that any operation gives."""

    entries = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if isinstance(result, torch.Tensor):
            self.entries = max(self.entries, result.numel())
        return result


def test_no_array_of_rows_times_columns_is_held():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    left, right, bias = random_scores(1, 1500, 2500, 4, seed=7, dtype=torch.float32)
    with LargestTensor() as largest:
        value_and_gradients(row_logsumexp, (left, right, bias))
    torch.set_num_threads(before)
    assert 0 < largest.entries <= tiles.ROWS * tiles.COLUMNS < 1500 * 2500


def test_the_number_of_threads_is_put_back(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)

    def fail(start, stop):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tiles.share(fail, 1000)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
