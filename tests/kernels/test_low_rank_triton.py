"""The GPU's kernels: on a GPU where there is one, or else in Triton's interpreter.

The interpreter must be asked for before Triton is imported, which others may have done by now: so
without a GPU this file runs itself again in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mrflearn.kernels.low_rank import plain_backward, plain_forward
from support.scores import random_scores

pytest.importorskip("triton", reason="the package triton (extra: gpu) is not installed")
pytestmark = [
    # What a GPU does silently, numpy, which the interpreter computes with, warns of.
    pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning"),
    # The interpreter of Triton 3.0 takes numbers out of arrays as numpy once allowed.
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
on_device = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="runs in the process started below"
)
DEVICE = "cpu" if INTERPRETED else "cuda"
# Offsets, rows, columns, dimensions: one, odd ones, several blocks, padded widths.
SHAPES = [(1, 1, 1, 1), (3, 5, 130, 7), (2, 77, 129, 30), (1, 200, 65, 100)]


def on_the_gpu_and_exactly(inputs, weight):
    """Values, means and gradients by Triton in float32, and by plain passes in float64."""
    from mrflearn.kernels import low_rank_triton as fused

    found = run(
        fused.forward, fused.backward, [value.to(DEVICE) for value in inputs], weight.to(DEVICE)
    )
    wanted = run(
        plain_forward, plain_backward, [value.double() for value in inputs], weight.double()
    )
    return [value.cpu().double() for value in found], wanted


def run(forward, backward, inputs, weight):
    value, mean, saved = forward(*inputs, means=True)
    return value, mean, *backward(value, weight, saved)


def assert_close(found, wanted, tolerance=2e-6):
    for one, other in zip(found, wanted, strict=True):
        size = other[other.isfinite()].abs().max().item() if other.isfinite().any() else 0.0
        torch.testing.assert_close(one, other, rtol=0.0, atol=tolerance * size + 1e-30)


def random_inputs(shape, *, seed, shared=True):
    left, right, bias = random_scores(*shape, seed=seed, dtype=torch.float32)
    left = left.expand(shape[0], -1, -1) * (0.3 if shared else 0.0)
    if not shared:
        left = torch.randn(shape[0], *shape[1:4:2]) * 0.3
    weight = torch.randn(shape[:2], generator=torch.Generator().manual_seed(seed)) / shape[1]
    return [left, right, bias], weight


@on_device
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_halves_are_as_accurate_as_float32(shape):
    assert_close(*on_the_gpu_and_exactly(*random_inputs(shape, seed=0)))


@on_device
def test_offsets_may_have_left_vectors_of_their_own():
    assert_close(*on_the_gpu_and_exactly(*random_inputs((3, 40, 50, 9), seed=1, shared=False)))


@on_device
def test_columns_without_weight():
    (left, right, bias), weight = random_inputs((3, 40, 150, 9), seed=2)
    bias[0, :70] = -torch.inf
    bias[1] = -torch.inf
    found, wanted = on_the_gpu_and_exactly([left, right, bias], weight)
    assert_close(found, wanted)
    assert (found[0][1] == -torch.inf).all()


@on_device
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_unlike_magnitudes_are_balanced(size):
    (left, right, bias), weight = random_inputs((2, 33, 70, 8), seed=3)
    assert_close(*on_the_gpu_and_exactly([left * size, right / size, bias], weight * size))


@on_device
def test_vectors_of_zeros():
    (left, right, bias), weight = random_inputs((2, 33, 70, 8), seed=4)
    assert_close(*on_the_gpu_and_exactly([0 * left, right, bias], weight))
    assert_close(*on_the_gpu_and_exactly([left, 0 * right, bias], 0 * weight))


@on_device
def test_values_alone():
    from mrflearn.kernels import low_rank_triton as fused

    inputs, _ = random_inputs((2, 33, 70, 8), seed=5)
    value, mean, _ = fused.forward(*(tensor.to(DEVICE) for tensor in inputs), means=False)
    exact, _, _ = plain_forward(*(tensor.double() for tensor in inputs), means=False)
    assert mean.numel() == 0
    torch.testing.assert_close(value.cpu().double(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_many_columns_lose_no_accuracy():
    found, wanted = on_the_gpu_and_exactly(*random_inputs((2, 3001, 9999, 32), seed=6))
    assert_close(found, wanted, tolerance=6e-6)


@pytest.mark.skipif(INTERPRETED or torch.cuda.is_available(), reason="these tests run already")
@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "2.5.0",
    reason="Triton's interpreter takes one-entry arrays for numbers, which numpy 2.5 refuses",
)
def test_in_tritons_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "10 passed" in ended.stdout
