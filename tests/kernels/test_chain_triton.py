"""The GPU's kernels of chains: on a GPU where there is one, or else in Triton's interpreter.

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
from torch.testing import assert_close

from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps
from support.chains import random_chains

pytest.importorskip("triton", reason="the package triton (extra: gpu) is not installed")
pytestmark = [
    # What a GPU does silently, numpy, which the interpreter computes with, warns of.
    pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
on_device = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="runs in the process started below"
)
DEVICE = "cpu" if INTERPRETED else "cuda"


def packed(chains):
    steps = Steps.of(chains.lengths, width=chains.unary.shape[1])
    table = chains.transition
    if table.ndim == 4:
        place = steps.sequence * (chains.unary.shape[1] - 1) + steps.position - 1
        table = table.flatten(0, 1)[place[steps.starting :]]
    return steps.pack(chains.unary.flatten(0, 1)), table, steps


CASES = [
    {"lengths": [7, 1, 0, 4], "states": 5},
    {"lengths": [6, 6, 2], "states": 4, "shared": False},
    {"lengths": [9, 3], "states": 17, "dtype": torch.float32},
    {"lengths": [5, 5], "states": 3, "forbidden": 0.3},
]


@on_device
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums(case):
    from mrflearn.kernels import chain_triton

    unary, table, steps = packed(random_chains(0, scale=2.0, **case))
    weight, kernel, _ = chain_sums._weights(unary, table, steps)
    plain, scale = chain_sums._forward(weight, kernel, steps)
    given = weight.to(DEVICE), kernel.to(DEVICE), steps.to(DEVICE)
    found, own = chain_triton.forward(*given)
    precise = 1e-5 if unary.dtype == torch.float32 else 1e-12
    assert_close(found.cpu(), plain, rtol=precise, atol=precise, equal_nan=True)
    assert_close(own.cpu(), scale, rtol=precise, atol=precise, equal_nan=True)
    weight /= scale[:, None]
    back = chain_triton.backward(weight.clone().to(DEVICE), *given[1:])
    for fast, slow in zip(back, chain_sums._backward(weight, kernel, steps), strict=True):
        assert_close(fast.cpu(), slow, rtol=precise, atol=precise, equal_nan=True)


@on_device
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("relative", [2, 64])
def test_best_paths(case, relative):
    from mrflearn.kernels import chain_triton

    unary, table, steps = packed(random_chains(1, **case))
    path, scores = chain_triton.viterbi(
        unary.to(DEVICE), table.to(DEVICE), steps.to(DEVICE), relative
    )
    best, offset = chain_search._forward(unary, table, steps, torch.amax)
    states, plain = chain_search._walk_back(best, table, steps)
    plain = plain + offset[steps.ranks]
    assert_close(scores.cpu(), plain.double(), rtol=1e-5, atol=1e-5)
    possible = (plain > -torch.inf)[steps.sequence]
    assert torch.equal(path.cpu()[possible], states[possible])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_chosen_on_the_device():
    unary, table, steps = packed(random_chains(2, [70, 33, 5], 25, dtype=torch.float32))
    own = unary.cuda().requires_grad_(), table.cuda().requires_grad_()
    there = steps.to("cuda")
    assert chain_sums.fused(own[0]) is not None
    value = chain_sums.log_partition(*own, there)
    leaves = unary.double().requires_grad_(), table.double().requires_grad_()
    exact = chain_sums.log_partition(*leaves, steps)
    assert_close(value.cpu(), exact, rtol=1e-6, atol=1e-4)
    found = torch.autograd.grad(value.sum(), own)
    for fast, slow in zip(found, torch.autograd.grad(exact.sum(), leaves), strict=True):
        assert_close(fast.cpu().double(), slow, rtol=1e-4, atol=1e-4)


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
    assert "12 passed" in ended.stdout
