"""Row log-sum-exps on every road, against the whole array of scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from mrflearn.kernels import low_rank
from mrflearn.kernels.low_rank import row_logsumexp, star_logsumexp
from support.scores import random_scores, row_logsumexp_reference, value_and_gradients

sizes = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(1, 5))
seeds = st.integers(0, 2**31)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-5}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and shares so small that every edge between them is crossed."""
    monkeypatch.setattr(low_rank, "STEP_ROWS", 3)
    monkeypatch.setattr(low_rank, "MOST_STAR_ROWS", 3)
    monkeypatch.setattr(low_rank, "SMALLEST_SHARE", 5)


def assert_same(inputs, scale=1.0, *, tolerance):
    found, exact = row_logsumexp(*inputs, scale), [value.double() for value in inputs]
    wanted = row_logsumexp_reference(*exact, scale)
    size = max(1.0, float(wanted[wanted.isfinite()].abs().max()) if wanted.isfinite().any() else 0)
    torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=tolerance * size)


@pytest.mark.usefixtures("small_blocks", "threads")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@settings(max_examples=20)
@given(shape=sizes, seed=seeds)
def test_blocks_agree_with_the_whole_array(dtype, shape, seed):
    inputs = random_scores(*shape, seed=seed, dtype=dtype)
    assert_same(inputs, 2.5, tolerance=TOLERANCE[dtype])


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=20)
@given(shape=sizes, seed=seeds, absent=st.floats(0, 1))
def test_columns_without_weight(shape, seed, absent):
    left, right, bias = random_scores(*shape, seed=seed, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    bias[torch.rand(bias.shape, generator=generator) < absent] = -torch.inf
    assert_same((left, right, bias), tolerance=1e-12)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=20)
@given(shape=sizes, seed=seeds)
def test_plain_passes_have_the_values_and_gradients_of_the_whole_array(shape, seed):
    left, right, bias = random_scores(*shape, seed=seed, dtype=torch.float64)
    left = left.expand(shape[0], -1, -1).contiguous()
    bias[0, 0] = -torch.inf
    weight = torch.randn(shape[:2], generator=torch.Generator().manual_seed(seed)).double()
    inputs = left, right, bias
    value, by_left, *wanted = value_and_gradients(row_logsumexp_reference, inputs, weight)
    found, mean, saved = low_rank.plain_forward(*inputs, means=True)
    torch.testing.assert_close(found, value)
    finite = torch.where(found.isfinite(), weight, 0.0)
    torch.testing.assert_close(finite.unsqueeze(2) * mean, by_left)
    for one, other in zip(low_rank.plain_backward(found, finite, saved), wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_blocks_of_the_usual_size(dtype):
    inputs = random_scores(2, 517, 4099, 6, seed=1, dtype=dtype)
    assert_same(inputs, tolerance=TOLERANCE[dtype])


def test_huge_scores_neither_overflow_nor_vanish():
    left, right, bias = random_scores(1, 7, 9, 4, seed=2, dtype=torch.float64)
    assert_same((1e3 * left, 1e2 * right, bias), tolerance=1e-9)


def test_either_side_may_be_shared_and_each_offset_scaled():
    left, right, bias = random_scores(3, 4, 5, 2, seed=4, dtype=torch.float64)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert_same((left, right[:1], bias), scale, tolerance=1e-12)


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
        value_and_gradients(star_logsumexp, (left, right, bias, torch.zeros(1500)))
        row_logsumexp(left, right, bias)
    torch.set_num_threads(before)
    assert 0 < largest.entries <= low_rank.MOST_STAR_ROWS * 2500 < 1500 * 2500


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)

    def fail(start, stop):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        low_rank.share(fail, 1000)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
