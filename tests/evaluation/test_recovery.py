"""Errors are what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.evaluation.recovery import marginal_error, partition_agreement, recovery


def test_recovery() -> None:
    found = recovery(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 0.0]))
    assert found.largest == 2.0
    assert found.relative == pytest.approx(2 / math.sqrt(5))
    assert recovery(np.ones(2), np.zeros(2)).relative == math.inf


def test_the_base_of_a_published_log_partition_is_found() -> None:
    assert partition_agreement(math.log(50), math.log10(50))[1] == "10"
    error, base = partition_agreement(math.log(50), math.log(50) + 1e-3)
    assert base == "e"
    assert error == pytest.approx(1e-3)


def test_marginals() -> None:
    assert marginal_error([[0.5, 0.5], [1.0]], [np.array([0.4, 0.6]), np.array([1.0])]) == (
        pytest.approx(0.1)
    )
    with pytest.raises(DataError, match="another network"):
        marginal_error([[1.0]], [np.array([0.5, 0.5])])
