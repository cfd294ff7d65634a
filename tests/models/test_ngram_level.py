"""The n-gram model as a level: distributions over words given preterminals, and buckets."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.io.corpus import Vocabulary
from mrflearn.models.ngram import NgramLevel, bucket_count, with_blind

VOCABULARY = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
STREAM = np.array([0, 2, 3, 2, 0, 2, 2, 4, 0, 3, 0, 2, 3, 4, 0])
TAGS = np.array([[0.0, 0.0], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("context", [[], [2], [2, 3], [3, 3], [4, 4, 4], [2, 3, 2]])
def test_words_after_a_context_add_up_for_every_preterminal(order: int, context: list[int]) -> None:
    level = NgramLevel.learn(STREAM, order, VOCABULARY)
    each = [level.tagged(np.array([0, *context, word]), TAGS)[-1] for word in range(1, 5)]
    assert np.sum(each, axis=0) == pytest.approx([1, 1], abs=1e-12)
    plain = np.exp(level.model.next_symbol(context))
    listed = plain[:, None] * TAGS
    assert np.stack(each) == pytest.approx((listed / listed.sum(axis=0))[1:], abs=1e-12)


def test_one_preterminal_for_all_is_the_plain_model() -> None:
    level = NgramLevel.learn(STREAM, 3, VOCABULARY)
    found = level.tagged(STREAM, np.ones((5, 1)))[:, 0]
    assert found == pytest.approx(np.exp(level.model.log_probabilities(STREAM)), abs=1e-12)


def test_blind_to_preterminals_it_is_the_plain_model_given_that_the_sentence_goes_on() -> None:
    level = NgramLevel.learn(STREAM, 3, VOCABULARY)
    context = [2, 3]
    each = [level.tagged(np.array([0, *context, w]), with_blind(TAGS))[-1, -1] for w in range(1, 5)]
    plain = np.exp(level.model.next_symbol(context))
    assert each == pytest.approx(plain[1:] / plain[1:].sum(), abs=1e-12)
    assert with_blind(TAGS)[:, :-1] == pytest.approx(TAGS)


def test_buckets_tell_what_is_known_of_the_context() -> None:
    level = NgramLevel.learn(STREAM, 3, VOCABULARY)
    found = level.buckets(np.array([0, 2, 3, 3, 4]))
    assert ((found >= 0) & (found < bucket_count(3))).all()
    assert found[2] > bucket_count(2)  # "a b" was seen
    assert found[3] < bucket_count(2)  # "b b" was not, but "b" was
    assert NgramLevel.learn(STREAM, 1, VOCABULARY).buckets(STREAM).max() == 0
