"""Agreement of nameless tags with true ones, by definition and by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.evaluation.tagging import many_to_one, v_measure

pairs = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyab")), min_size=1)


def entropy(events):
    counts = Counter(events).values()
    return -sum(n / len(events) * math.log(n / len(events)) for n in counts)


@given(pairs)
def test_v_measure_by_its_definition(tokens):
    truth, found = zip(*tokens, strict=True)
    shared = entropy(truth) + entropy(found) - entropy(tokens)
    homogeneity = shared / entropy(truth) if entropy(truth) else 1.0
    completeness = shared / entropy(found) if entropy(found) else 1.0
    both = homogeneity + completeness
    expected = 2 * homogeneity * completeness / both if both else 0.0
    assert v_measure([truth], [found]) == pytest.approx(expected, abs=1e-9)


def test_many_to_one_by_hand():
    truth, found = [["n", "n", "v"], ["v", "v", "d"]], [["1", "2", "1"], ["3", "1", "3"]]
    # 1 stands for v (2 of 3), 2 for n (1 of 1), 3 for v or d (1 of 2).
    assert many_to_one(truth, found) == pytest.approx(4 / 6)
    assert many_to_one([["a", "b"]], [["b", "a"]]) == 1.0


def test_nothing_has_no_share():
    assert math.isnan(many_to_one([], []))
    assert math.isnan(v_measure([[]], [[]]))
