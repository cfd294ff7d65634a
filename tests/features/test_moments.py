from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mrflearn.errors import DataError
from mrflearn.features.moments import PairCounts, lattice_moments, sum_by_key
from mrflearn.io.corpus import Vocabulary
from support.moments import count_sentences

WORDS = Vocabulary(("<S>", "<unk>", "a"))
TEXT = count_sentences([["a"], ["a", "b"]], WORDS, 2)
images = arrays(
    np.int64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.integers(0, 3)
)


@given(images, st.tuples(st.integers(-3, 3), st.integers(-3, 3)))
def test_a_torus_is_counted_by_wrapping_around(image, offset):
    moments = lattice_moments(image, [offset, (0, 1)], states=4)
    rows, columns = image.shape
    expected = Counter()
    for i in range(rows):
        for j in range(columns):
            right = image[(i + offset[0]) % rows, (j + offset[1]) % columns]
            expected[int(image[i, j]), int(right)] += 1
    pair = moments.pairs[0]
    keys = zip(pair.left.tolist(), pair.right.tolist(), strict=True)
    assert dict(zip(keys, pair.count.tolist(), strict=True)) == expected
    assert moments.unary.tolist() == [int((image == state).sum()) for state in range(4)]
    assert moments.positions == moments.words == image.size
    assert moments.sentences == 0


def test_a_line_of_states_is_a_ring():
    moments = lattice_moments([0, 1, 1], [(1,)])
    assert moments.pairs[0].codes(2).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        ([[0.5]], {}, "whole numbers"),
        ([[-1]], {}, "whole numbers"),
        (np.zeros((0, 2), int), {}, "at least one"),
        ([[3]], {"states": 3}, "states=3"),
        ([[0]], {"offsets": [(1,)]}, "2 dimensions"),
        ([[0]], {"offsets": []}, "one list of pairs"),
    ],
)
def test_broken_images_are_refused(image, options, message):
    with pytest.raises(DataError, match=message):
        lattice_moments(image, **options)


def test_a_torus_cannot_be_rounded_up():
    with pytest.raises(DataError, match="torus"):
        lattice_moments([[0, 1, 1]], [(0, 1)]).rounded_up(2)


def test_only_like_moments_are_merged():
    with pytest.raises(DataError, match="context"):
        TEXT + count_sentences([["a"]], WORDS, 1)
    other = count_sentences([["a"]], Vocabulary(("<unk>", "<S>", "a")), 2)
    with pytest.raises(DataError, match="vocabularies"):
        TEXT + other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unary": np.array([1, 2, 3])}, "positions"),
        ({"unary": np.array([1, 2])}, "vocabulary of 3"),
        ({"separator": 3}, "separator 3"),
        ({"pairs": TEXT.pairs[:1]}, "one list of pairs"),
        ({"offsets": ((1,), (1, 2))}, "one list of pairs"),
        ({"pairs": (PairCounts(*np.array([[3], [0], [7]])),) * 2}, "outside"),
        ({"pairs": (PairCounts(*np.array([[0, 0], [0, 1], [-1, 8]])),) * 2}, "negative"),
    ],
)
def test_records_that_contradict_themselves_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        replace(TEXT, **change)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 2))))
def test_sums_by_key(rows):
    expected = Counter()
    for key, value in rows:
        expected[key] += value
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    keys, sums = sum_by_key(table[:, 0], table[:, 1])
    assert keys.tolist() == sorted(key for key, total in expected.items() if total)
    assert sums.tolist() == [expected[key] for key in keys.tolist()]
