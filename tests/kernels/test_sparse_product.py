"""A sparse matrix times a dense one, value and gradient."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from mrflearn.kernels.low_rank import SparseMatrix


def test_sparse_is_dense():
    generator = np.random.default_rng(1)
    dense = generator.random((7, 5)) * (generator.random((7, 5)) < 0.4)
    matrix = SparseMatrix.of(csr_array(dense), torch.float64, torch.device("cpu"))
    right = torch.from_numpy(generator.normal(size=(5, 3))).requires_grad_()
    weight = torch.from_numpy(generator.normal(size=(7, 3)))
    product = matrix @ right
    torch.testing.assert_close(product, torch.from_numpy(dense) @ right)
    (slope,) = torch.autograd.grad((product * weight).sum(), right)
    torch.testing.assert_close(slope, torch.from_numpy(dense).T @ weight)
