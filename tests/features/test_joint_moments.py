"""Joint moments against counting a ring token by token."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.features.tagged_sentences import (
    UNKNOWN,
    JointMoments,
    TaggedSentences,
    count_joint,
)

tokens = st.tuples(st.integers(1, 4), st.integers(1, 2))
texts = st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=4)
SHAPE = 5, 3
PLACES = 0, -1, 1


def sentences_of(text) -> TaggedSentences:
    flat = [token for sentence in text for token in sentence]
    words, tags = np.array(flat, dtype=np.int64).reshape(-1, 2).T
    return TaggedSentences(words, tags, np.array([len(s) for s in text]))


def by_hand(text, distances: int) -> tuple[list[Counter], dict[int, Counter]]:
    ring = [token for sentence in text for token in [(0, 0)] * distances + sentence]
    size = len(ring)
    steps = [
        Counter((ring[i][1], ring[(i + d) % size][1]) for i in range(size))
        for d in range(1, distances + 1)
    ]
    words = {p: Counter((ring[(i + p) % size][0], ring[i][1]) for i in range(size)) for p in PLACES}
    return steps, words


def same(table, counts: Counter) -> bool:
    return {tuple(map(int, at)): table[tuple(at)] for at in np.argwhere(table)} == dict(counts)


@given(text=texts, distances=st.sampled_from([1, 2]))
def test_counts_are_those_of_the_ring(text, distances):
    found = count_joint(sentences_of(text), SHAPE, distances, PLACES)
    steps, words = by_hand(text, distances)
    assert all(same(table, own) for table, own in zip(found.transitions, steps, strict=True))
    assert all(same(found.words[p].toarray(), words[p]) for p in PLACES)
    assert found.positions == sum(map(len, text)) + distances * len(text)


@given(first=texts, second=texts, distances=st.sampled_from([1, 2]))
def test_counts_of_texts_add_up(first, second, distances):
    both = count_joint(sentences_of(first + second), SHAPE, distances, PLACES)
    each = [count_joint(sentences_of(text), SHAPE, distances, PLACES) for text in (first, second)]
    assert_same(each[0] + each[1], both)
    assert_same(each[0] * 2.0, each[0] + each[0])


def test_separators_fill_up_a_ring():
    moments = count_joint(sentences_of([[(1, 1), (2, 2)]]), SHAPE, 2, PLACES)
    filled = moments.rounded_up(3)
    assert (moments.positions, filled.positions) == (4, 6)
    assert (filled.transitions - moments.transitions)[:, 0, 0].tolist() == [2, 2]
    assert all((filled.words[p] - moments.words[p])[[0], [0]] == [2] for p in PLACES)


def test_only_separators_are_counted_of_untagged_sentences():
    text = sentences_of([[(1, 1), (2, 2)], [(3, 1)]])
    untagged = TaggedSentences(text.words, np.full(3, UNKNOWN), text.lengths)
    found = count_joint(untagged, SHAPE, 2, PLACES)
    assert found.transitions[0].sum() == found.transitions[0][0, 0] == 2
    assert found.words[0].toarray()[0, 0] == 4
    # The separators beside a sentence see its first and last words.
    assert found.words[1].toarray()[:, 0].tolist() == [2, 1, 0, 1, 0]
    assert found.words[-1].toarray()[:, 0].tolist() == [2, 0, 1, 1, 0]


def assert_same(one: JointMoments, other: JointMoments) -> None:
    np.testing.assert_allclose(one.transitions, other.transitions)
    for place, counts in one.words.items():
        np.testing.assert_allclose(counts.toarray(), other.words[place].toarray())


def test_sentences_with_gaps_are_told_apart():
    tags = np.array([1, 2, UNKNOWN, 1, UNKNOWN])
    text = TaggedSentences(np.arange(1, 6), tags, np.array([2, 2, 1, 0]))
    assert text.known.tolist() == [True, False, False, True]
    kept = text.part(np.array([False, True, False, False]))
    assert (kept.words.tolist(), kept.tags.tolist(), kept.lengths.tolist()) == (
        [3, 4],
        [-1, 1],
        [2],
    )


@pytest.mark.parametrize("multiple", [1, 2, 3])
def test_rounding_up_gives_a_multiple(multiple):
    moments = count_joint(sentences_of([[(1, 1)] * 4]), SHAPE, 1, PLACES).rounded_up(multiple)
    assert moments.positions % multiple == 0
