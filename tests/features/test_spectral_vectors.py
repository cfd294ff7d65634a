"""Vectors of a table of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mrflearn.errors import DataError
from mrflearn.features.log_ratios import spectral_vectors


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 9))
def test_vectors_are_singular_vectors_times_the_root_of_their_size(seed, dims):
    draw = np.random.default_rng(seed)
    table = draw.random((6, 6)) * (draw.random((6, 6)) < 0.6)
    table = table + table.T + np.diag(np.arange(1.0, 7.0))
    vectors = spectral_vectors(csr_array(table), dims, 0)
    left, size, _ = np.linalg.svd(table)
    kept = min(dims, 6)
    # Of each direction either sign will do, so products are compared.
    expected = (left[:, :kept] * size[:kept]) @ left[:, :kept].T
    np.testing.assert_allclose(vectors @ vectors.T, expected, rtol=1e-3, atol=1e-3)
    assert vectors.shape == (6, dims)
    assert not vectors[:, kept:].any()


def test_a_table_of_nothing_has_no_vectors():
    with pytest.raises(DataError, match="no vectors"):
        spectral_vectors(csr_array((3, 3)), 2, 0)
