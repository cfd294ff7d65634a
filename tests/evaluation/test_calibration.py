"""Reliability tables counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.evaluation.calibration import reliability


def test_a_table_counted_by_hand() -> None:
    table = reliability([0.1, 0.5, 0.6, 1.0, 0.0], [False, True, False, True, False], bins=2)
    assert table.edges.tolist() == [0.0, 0.5, 1.0]
    assert table.counts.tolist() == [3, 2]
    assert table.confidence == pytest.approx([0.2, 0.8])
    assert table.accuracy == pytest.approx([1 / 3, 0.5])
    assert table.expected_error == pytest.approx((3 * (1 / 3 - 0.2) + 2 * 0.3) / 5)
    assert table.largest_error == pytest.approx(0.3)


def test_empty_bins_weigh_nothing() -> None:
    table = reliability([0.95, 0.95], [True, False], bins=10)
    assert np.isnan(table.accuracy[:9]).all()
    assert table.expected_error == table.largest_error == pytest.approx(0.45)
    assert reliability([], []).expected_error == 0.0


def test_bins_of_equal_counts() -> None:
    sure = np.linspace(0.9, 1.0, 101)[1:]
    table = reliability(sure, np.ones(100), bins=4, equal_counts=True)
    assert table.counts.tolist() == [25, 25, 25, 25]


def test_honest_probabilities_are_calibrated_and_sharpened_ones_are_not() -> None:
    draw = np.random.default_rng(0)
    sure = draw.uniform(0.5, 1.0, 20_000)
    right = draw.uniform(size=sure.size) < sure
    assert reliability(sure, right).expected_error < 0.02
    assert reliability(sure**0.25, right).expected_error > 0.1


def test_complaints() -> None:
    with pytest.raises(DataError, match="logarithms"):
        reliability([-0.1], [True])
    with pytest.raises(DataError, match="2 probabilities but 1"):
        reliability([0.1, 0.2], [True])
    with pytest.raises(DataError, match="at least 1 bin"):
        reliability([0.1], [True], bins=0)
