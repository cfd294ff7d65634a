"""Rows of n-grams: every token finds its own, and says when there is none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.features.ngrams import NgramIndex, sentence_stream

STATES, EDGE = 5, 0
SENTENCES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=5)


def stream_of(sentences: list[list[int]]) -> np.ndarray:
    ids = [word for words in sentences for word in [*words, -1]]
    return sentence_stream(np.array(ids, np.int32), EDGE)


def seen_grams(sentences: list[list[int]], order: int, ends: bool) -> set[tuple[int, ...]]:
    found = set()
    for words in sentences:
        line = [EDGE, *words, EDGE]
        grams = {tuple(line[i : i + order]) for i in range(len(line) - order + 1)}
        found |= {gram for gram in grams if ends or gram[-1] != EDGE}
    return found


@given(train=SENTENCES, test=SENTENCES, ends=st.booleans())
def test_rows_are_n_grams_by_name(
    train: list[list[int]], test: list[list[int]], ends: bool
) -> None:
    index = NgramIndex.of(stream_of(train), 3, STATES, EDGE, ends=ends)
    for order in (2, 3):
        known = seen_grams(train, order, ends)
        assert index.size(order) == len(known)
        rows = iter(index.rows(stream_of(test))[order - 1].tolist())
        names: dict[int, tuple[int, ...]] = {}
        for words in test:
            line = [EDGE, *words, EDGE]
            for i in range(1, len(line)):
                row, gram = next(rows), tuple(line[max(0, i - order + 1) : i + 1])
                if gram in known:
                    assert row < len(known)
                    assert names.setdefault(row, gram) == gram
                elif any(gram[:-1] == other[:-1] for other in known) and len(gram) == order:
                    assert row == len(known)
                else:
                    assert row == len(known) + 1


def test_contexts_number_the_order_below() -> None:
    index = NgramIndex.of(stream_of([[1, 2], [1, 3]]), 2, STATES, EDGE, ends=True)
    context, count = index.contexts(2)
    assert count == STATES
    assert context.tolist() == [0, 1, 1, 2, 3]  # <S> 1, 1 2, 1 3, 2 <S>, 3 <S>
