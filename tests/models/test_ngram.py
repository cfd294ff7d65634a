"""Back-off models answer as their definition says, sample what they score, refuse nonsense."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.ngram import BackoffTable, NgramModel

WORDS = Vocabulary(("<S>", "<unk>", "a", "b"))


def table(code: list[int], probability: list[float], backoff: list[float]) -> BackoffTable:
    return BackoffTable(np.array(code), np.log(probability), np.log(backoff))


def small_model() -> NgramModel:
    unigrams = table([0, 1, 2, 3], [0.2, 0.1, 0.3, 0.4], [0.5, 1, 0.25, 1])
    bigrams = table([2, 3, 11], [0.6, 0.1, 0.7], [1, 0.5, 0.8])  # <S> a, <S> b, a b
    trigrams = table([0 * 4 + 3, 2 * 4 + 0], [0.9, 0.05], [1, 1])  # <S> a b, a b <S>
    return NgramModel(WORDS, (unigrams, bigrams, trigrams))


def test_a_text_by_hand() -> None:
    stream = np.array([0, 2, 3, 0, 3, 2, 1, 0])  # a b | b a <unk>
    expected = [
        0.6,  # <S> a is there
        0.9,  # <S> a b is there
        0.05,  # a b <S> is there
        0.1,  # <S> b
        0.5 * 1.0 * 0.3,  # after <S> b, after b, a
        0.25 * 0.1,  # b a is not there; after a, <unk>
        0.2,  # <unk> has no back-off
    ]
    np.testing.assert_allclose(np.exp(small_model().log_probabilities(stream)), expected)


def test_next_symbols_by_hand() -> None:
    model = small_model()
    after_a = np.exp(model.next_symbol([3, 2]))
    np.testing.assert_allclose(after_a, [0.25 * 0.2, 0.25 * 0.1, 0.25 * 0.3, 0.7])
    at_start = np.exp(model.next_symbol([]))
    np.testing.assert_allclose(at_start, [0.5 * 0.2, 0.5 * 0.1, 0.6, 0.1])


def test_samples_follow_the_model() -> None:
    model = small_model()
    generator = np.random.default_rng(0)
    count = 20_000
    seen = Counter(tuple(model.sample(generator, longest=2)) for _ in range(count))
    # The figures made up above do not sum to one; sampling normalises.
    first = np.exp(model.next_symbol([]))
    first /= first.sum()
    for word in (1, 2, 3):
        second = np.exp(model.next_symbol([word]))
        second /= second.sum()
        for other in (1, 2, 3):
            expected = first[word] * second[other]
            error = 5 * np.sqrt(expected / count)
            assert seen[word, other] / count == pytest.approx(expected, abs=error)
    assert seen[()] / count == pytest.approx(first[0], abs=0.02)


def test_nonsense_is_refused() -> None:
    good = small_model()
    for bad in (
        table([3, 2], [0.5, 0.5], [1, 1]),
        BackoffTable(np.array([1]), np.zeros(2), np.zeros(1)),
        table([99], [0.5], [1]),
    ):
        with pytest.raises(DataError, match="order 2"):
            NgramModel(WORDS, (good.tables[0], bad))
    with pytest.raises(DataError, match="1 unigrams for 4 words"):
        NgramModel(WORDS, (table([0], [0.5], [1]),))
