"""Words are sorted by the company they keep."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.estimators.tagger_training import cluster_words, context_vectors
from mrflearn.features.tagged_sentences import TaggedSentences, number_sentences
from support.toy_language import toy_sentences


@pytest.fixture(scope="module")
def text() -> tuple[list[str], TaggedSentences]:
    sentences, _ = toy_sentences(400, seed=1)
    counts = Counter(word for sentence in sentences for word in sentence)
    words = ["<S>", *(word for word, _ in counts.most_common())]
    number = {word: i for i, word in enumerate(words)}
    return words, number_sentences(sentences, [None] * len(sentences), number, {})


def test_words_of_one_kind_are_in_one_class(text):
    words, read = text
    found = dict(zip(words, cluster_words(read, len(words), 5, seed=0).tolist(), strict=True))
    for ending in ("tion", "ize", "ly"):
        kinds = {kind for word, kind in found.items() if word.endswith(ending)}
        assert len(kinds) == 1
    assert len({found[word] for word in ("the", "baltion", "balize", "bally")}) == 4


def test_vectors_have_length_one_and_counts_are_those_of_the_ring(text):
    words, read = text
    vectors, counts = context_vectors(read, len(words), seed=0)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    assert counts.tolist() == [len(read), *np.bincount(read.words)[1:]]


def test_more_classes_than_words_are_refused():
    read = TaggedSentences(np.array([1, 2]), np.array([-1, -1]), np.array([2]))
    with pytest.raises(DataError, match="2 different words"):
        cluster_words(read, 3, 4, seed=0)
