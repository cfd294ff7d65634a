"""One pass for both Perron vectors, against the whole array of scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.kernels import low_rank
from mrflearn.kernels.low_rank import in_two_passes, power_step
from support.scores import power_step_reference, random_scores

sizes = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(1, 5))


def random_step(shape, seed, dtype):
    offsets, rows, columns, _ = shape
    left, right, bias = random_scores(*shape, seed=seed, dtype=dtype)
    generator = torch.Generator().manual_seed(seed + 1)
    vectors = [
        3 * torch.randn(offsets, n, generator=generator, dtype=dtype) for n in (rows, columns)
    ]
    return left.expand(offsets, -1, -1), right, bias, *vectors


@pytest.fixture(params=[1, 2])
def threads(request, monkeypatch):
    monkeypatch.setattr(low_rank, "STEP_ROWS", 3)
    monkeypatch.setattr(low_rank, "SMALLEST_SHARE", 5)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@settings(max_examples=20)
@given(shape=sizes, seed=st.integers(0, 2**31))
def test_one_pass_agrees_with_the_whole_array(dtype, tolerance, shape, seed):
    inputs = random_step(shape, seed, dtype)
    exact = power_step_reference(*(value.double() for value in inputs))
    for found, wanted in zip(power_step(*inputs), exact, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=tolerance)


@settings(max_examples=20)
@given(shape=sizes, seed=st.integers(0, 2**31))
def test_the_two_passes_of_a_gpu_agree_with_the_whole_array(shape, seed):
    inputs = random_step(shape, seed, torch.float64)
    for found, wanted in zip(
        in_two_passes(low_rank.plain_forward, low_rank.plain_backward).power_step(*inputs),
        power_step_reference(*inputs),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-11)


@pytest.mark.usefixtures("threads")
def test_absent_words_and_words_too_rare_for_the_type():
    inputs = random_step((1, 17, 19, 3), 0, torch.float32)
    left, right, bias, rows, columns = inputs
    rows[0, :6] = -torch.inf  # the whole of the first two blocks
    columns[0, 4] = -200.0  # its share of any sum is below float32
    along_columns, along_rows = power_step(*inputs)
    wanted = power_step_reference(*(value.double() for value in inputs))
    others = [y for y in range(19) if y != 4]
    torch.testing.assert_close(along_columns[:, others], wanted[0][:, others].float())
    torch.testing.assert_close(along_rows, wanted[1].float())
    assert along_columns.isfinite().all()
    bias[0, :7] = -torch.inf
    assert (power_step(left, right, bias, rows, columns)[1].isfinite()).all()


def test_blocks_of_the_usual_size():
    inputs = random_step((2, 700, 3000, 4), 4, torch.float64)
    for found, wanted in zip(power_step(*inputs), power_step_reference(*inputs), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-11)
