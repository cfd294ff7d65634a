"""n-grams found by sorting numbers are those that a dictionary counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.features.ngrams import count_ngrams, sentence_stream

STATES = 4
corpora = st.lists(st.lists(st.integers(1, STATES - 1), min_size=1, max_size=7), min_size=1)


def stream_of(sentences: list[list[int]]) -> np.ndarray:
    flat = [symbol for sentence in sentences for symbol in (*sentence, -1)]
    return sentence_stream(np.array(flat, np.int32), separator=0)


def test_a_stream_has_one_separator_between_sentences() -> None:
    ids = np.array([-1, 2, 3, -1, -1, 1, -1], np.int32)
    assert sentence_stream(ids, separator=0).tolist() == [0, 2, 3, 0, 1, 0]
    assert sentence_stream(np.array([2], np.int32), separator=0).tolist() == [0, 2, 0]
    assert sentence_stream(np.array([-1, -1], np.int32), separator=0).tolist() == [0]


@given(corpora, st.integers(1, 5))
def test_counts_equal_a_dictionary(sentences: list[list[int]], order: int) -> None:
    found = count_ngrams(stream_of(sentences), order, STATES, separator=0)
    grams: list[tuple[int, ...]] = [(word,) for word in range(STATES)]
    for n, table in enumerate(found, start=1):
        expected: Counter[tuple[int, ...]] = Counter()
        for sentence in sentences:
            padded = (0, *sentence, 0)
            windows = (padded[i : i + n] for i in range(len(padded) - n + 1))
            expected.update(gram for i, gram in enumerate(windows) if n > 1 or i > 0)
        shorter = grams
        if n > 1:
            grams = [(*shorter[c // STATES], c % STATES) for c in table.code.tolist()]
            assert [shorter[place] for place in table.suffix] == [gram[1:] for gram in grams]
            assert table.begins.tolist() == [gram[0] == 0 for gram in grams]
            assert (np.diff(table.code) > 0).all()
            assert set(grams) == set(expected)
        assert table.count.tolist() == [expected[gram] for gram in grams]


def test_no_words_is_an_error() -> None:
    with pytest.raises(DataError, match="no words"):
        count_ngrams(np.array([0]), 2, STATES, separator=0)
