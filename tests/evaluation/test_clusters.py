"""Agreement of nameless tags with true ones, against scikit-learn and by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import v_measure_score

from mrflearn.evaluation.clusters import many_to_one, v_measure

pairs = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyab")), min_size=1)


@given(pairs)
def test_v_measure_is_scikit_learns(tokens):
    truth, found = zip(*tokens, strict=True)
    assert v_measure([truth], [found]) == pytest.approx(v_measure_score(truth, found), abs=1e-9)


def test_many_to_one_by_hand():
    truth, found = [["n", "n", "v"], ["v", "v", "d"]], [["1", "2", "1"], ["3", "1", "3"]]
    # 1 stands for v (2 of 3), 2 for n (1 of 1), 3 for v or d (1 of 2).
    assert many_to_one(truth, found) == pytest.approx(4 / 6)
    assert many_to_one([["a", "b"]], [["b", "a"]]) == 1.0


def test_nothing_has_no_share():
    assert math.isnan(many_to_one([], []))
    assert math.isnan(v_measure([[]], [[]]))
