"""Counts of tags by hand, and what cannot be counted."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.features.tagged_sentences import TagCounts, count_tags


def test_counts_by_hand() -> None:
    counts = count_tags([["a", "b"], [], ["a"]], [["X", "Y"], [], ["X"]])
    assert (counts.words, counts.tags, counts.edge) == (("a", "b"), ("X", "Y"), 2)
    assert sorted(map(tuple, counts.emission.tolist())) == [(0, 1, 1, 1), (2, 0, 0, 2)]
    assert sorted(map(tuple, counts.trigram.tolist())) == [
        (0, 1, 2, 1), (2, 0, 1, 1), (2, 0, 2, 1), (2, 2, 0, 2),
    ]  # fmt: skip
    assert counts.lexicon.toarray().tolist() == [[2, 0], [0, 1]]
    assert counts.tag_total.tolist() == counts.word_total.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("sentences", "tags", "says"),
    [
        ([["a"]], [["X", "Y"]], "1 words and 2 tags"),
        ([["a"]], [], "1 sentences and tags for 0"),
        ([["a"]], [[None]], "words without a tag"),
        ([["a"]], [None], "words without a tag"),
        ([["a"]], [[1]], "the tag 1 is a int"),
        (["a"], [["X"]], "not a list of words"),
        ([[]], [[]], "no tagged words"),
        ([], [], "no tagged words"),
    ],
)
def test_what_cannot_be_counted(sentences: list, tags: list, says: str) -> None:
    with pytest.raises(DataError, match=says):
        count_tags(sentences, tags)


def test_numbers_beyond_the_words_are_refused() -> None:
    good = count_tags([["a"]], [["X"]])
    with pytest.raises(DataError, match="not there"):
        TagCounts(good.words, good.tags, good.emission + np.array([0, 0, 1, 0]), good.trigram)
