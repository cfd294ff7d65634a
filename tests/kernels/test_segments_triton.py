"""The GPU's kernels of segments: on a GPU where there is one, or else in Triton's interpreter.

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

from mrflearn.kernels import segments

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


@on_device
@pytest.mark.parametrize(("longest", "states"), [(1, 1), (3, 2), (5, 17), (40, 3)])
def test_sums_and_expected_counts(longest, states):
    from mrflearn.kernels import segments_triton

    generator = torch.Generator().manual_seed(longest)
    lengths = torch.tensor([7, 1, 0, 4])
    shapes = (4, 7, states), (4, 7, states), (longest, states), (states, states)
    scores = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    scores[3][0] = -torch.inf if states > 1 else 0.0
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)
    begun, ended = segments.plain_forward(*scores)
    last = ended[torch.arange(4), (lengths - 1).clamp_min(0)].logsumexp(dim=1)
    there = [own.to(DEVICE) for own in (*scores, lengths)]
    found = segments_triton.forward(*there)
    inside = torch.arange(7) < lengths[:, None]
    for fast, slow in zip(found, (begun, ended), strict=True):
        assert_close(fast.cpu()[inside], slow[inside])
    value = last.where(lengths > 0, 0.0)
    wanted = segments.plain_backward(*scores, lengths, begun, ended, value, weight)
    counts = segments_triton.backward(*there, *found, value.to(DEVICE), weight.to(DEVICE))
    for fast, slow in zip(counts, wanted, strict=True):
        assert_close(fast.cpu(), slow)


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
    assert "4 passed" in ended.stdout
