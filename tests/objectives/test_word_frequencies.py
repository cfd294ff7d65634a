"""Sparse mean scores against the dense sum, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from mrflearn.graph.lifted import WordPotentials
from mrflearn.kernels.low_rank import SparseMatrix
from mrflearn.objectives.lifted import WordFrequencies


@pytest.mark.parametrize("shared", ["left", "right", "neither"])
def test_sparse_is_dense(shared):
    generator = np.random.default_rng(3)
    dense = generator.random((2, 7, 7)) * (generator.random((2, 7, 7)) < 0.3)
    pairs = tuple(
        SparseMatrix.of(csr_array(matrix), torch.float64, torch.device("cpu")) for matrix in dense
    )
    nothing = torch.zeros(7, dtype=torch.float64)
    frequencies = WordFrequencies(nothing, pairs)
    left = torch.from_numpy(generator.normal(size=(1 if shared == "left" else 2, 7, 3)))
    right = torch.from_numpy(generator.normal(size=(1 if shared == "right" else 2, 7, 3)))
    found, expected = [], []
    for answers, function in (
        (found, lambda a, b: frequencies.mean_score(WordPotentials(nothing, a, b))),
        (expected, lambda a, b: (torch.from_numpy(dense) * (a @ b.mT)).sum()),
    ):
        leaves = left.clone().requires_grad_(), right.clone().requires_grad_()
        value = function(*leaves) * 2
        answers.extend([value.detach(), *torch.autograd.grad(value, leaves)])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
