from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.kernels import low_rank
from mrflearn.kernels.low_rank import in_two_passes, star_logsumexp
from support.scores import (
    assert_same_value_and_gradient,
    random_scores,
    star_logsumexp_reference,
    value_and_gradients,
)

sizes = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(1, 5))
seeds = st.integers(0, 2**31)


def random_stars(offsets, rows, columns, dims, *, seed, dtype):
    scores = random_scores(offsets, rows, columns, dims, seed=seed, dtype=dtype)
    generator = torch.Generator().manual_seed(seed + 1)
    return *scores, 5 * torch.randn(rows, generator=generator, dtype=dtype)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(low_rank, "LEAST_STAR_ROWS", 3)
    monkeypatch.setattr(low_rank, "MOST_STAR_ROWS", 3)
    monkeypatch.setattr(low_rank, "SMALLEST_SHARE", 5)


@pytest.mark.usefixtures("small_blocks", "threads")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 3e-4)])
@settings(max_examples=20)
@given(shape=sizes, seed=seeds)
def test_one_pass_agrees_with_the_whole_array(dtype, tolerance, shape, seed):
    inputs = random_stars(*shape, seed=seed, dtype=dtype)
    assert_same_value_and_gradient(
        star_logsumexp, star_logsumexp_reference, inputs, 2.5, tolerance=tolerance
    )


@settings(max_examples=20)
@given(shape=sizes, seed=seeds)
def test_two_passes_agree_with_one(shape, seed):
    left, right, bias, centre = random_stars(*shape, seed=seed, dtype=torch.float64)
    left = left.expand(shape[0], -1, -1)
    once = low_rank.star_in_blocks(left, right, bias, centre)
    twice = in_two_passes(low_rank.plain_forward, low_rank.plain_backward).star(
        left, right, bias, centre
    )
    for found, wanted in zip(twice, once, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("small_blocks", "threads")
def test_absent_words():
    left, right, bias, centre = random_stars(2, 17, 19, 3, seed=0, dtype=torch.float64)
    bias[0, :7] = -torch.inf
    centre[:6] = -torch.inf  # the whole of the first block, and more
    assert_same_value_and_gradient(
        star_logsumexp, star_logsumexp_reference, (left, right, bias, centre), tolerance=1e-11
    )


def test_an_empty_offset_leaves_nothing_and_no_nan():
    left, right, bias, centre = random_stars(2, 4, 5, 3, seed=1, dtype=torch.float32)
    bias[1] = -torch.inf
    value, *gradients = value_and_gradients(star_logsumexp, (left, right, bias, centre))
    assert value == -torch.inf
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_gradients_by_finite_differences():
    inputs = random_stars(2, 4, 5, 3, seed=2, dtype=torch.float64)
    scale = torch.tensor([0.5, 2.0], dtype=torch.float64)
    leaves = [value.requires_grad_() for value in (*inputs, scale)]
    assert torch.autograd.gradcheck(star_logsumexp, leaves)


def test_without_gradients_the_value_is_the_same():
    inputs = random_stars(2, 40, 50, 3, seed=3, dtype=torch.float64)
    with torch.no_grad():
        value = star_logsumexp(*inputs, 3.0)
    torch.testing.assert_close(value, star_logsumexp_reference(*inputs, 3.0))


def test_blocks_of_the_usual_size():
    inputs = random_stars(2, 700, 3000, 4, seed=4, dtype=torch.float64)
    assert_same_value_and_gradient(
        star_logsumexp, star_logsumexp_reference, inputs, tolerance=1e-10
    )
