"""Kneser-Ney equals its definitions, sums to one, and gives KenLM's figures on real text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.estimators.ngram import NgramLanguageModel
from mrflearn.features.ngrams import count_ngrams, sentence_stream
from mrflearn.io.corpus import Vocabulary, count_corpus, encode_corpus
from mrflearn.models.ngram import NgramModel, adjusted_counts, discounts, kneser_ney
from support.kneser_ney import SlowKneserNey

corpora = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), min_size=1)


def fitted(sentences: list[list[str]], order: int) -> NgramModel:
    vocabulary = Vocabulary.from_counts(count_corpus(sentences))
    stream = sentence_stream(encode_corpus(sentences, vocabulary), vocabulary.separator)
    return kneser_ney(count_ngrams(stream, order, len(vocabulary), 0), vocabulary)


@given(corpora, st.integers(1, 4), st.lists(st.sampled_from("abcz"), max_size=4))
def test_every_next_word_equals_the_definition(
    sentences: list[list[str]], order: int, context: list[str]
) -> None:
    model = fitted(sentences, order)
    words = model.vocabulary.words
    slow = SlowKneserNey(sentences, order, words)
    read = tuple(word if word in words else "<unk>" for word in context)
    found = np.exp(model.next_symbol(model.vocabulary.encode(context).tolist()))
    expected = [slow.probability(word, ("<S>", *read)) for word in words]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@given(corpora, corpora, st.integers(1, 4))
def test_a_whole_text_is_scored_as_word_after_word(
    sentences: list[list[str]], text: list[list[str]], order: int
) -> None:
    model = fitted(sentences, order)
    stream = sentence_stream(encode_corpus(text, model.vocabulary), 0)
    expected = []
    for sentence in text:
        ids = model.vocabulary.encode(sentence).tolist()
        for i, symbol in enumerate([*ids, 0]):
            expected.append(model.next_symbol(ids[:i])[symbol])
    np.testing.assert_allclose(model.log_probabilities(stream), expected, rtol=1e-12)


def test_discounts_by_hand_and_by_fallback() -> None:
    counts = np.repeat([1, 2, 3, 4, 7], [40, 20, 10, 5, 3])
    y = 40 / 80
    expected = [1 - 2 * y * 20 / 40, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10]
    found, fell_back = discounts(counts)
    assert found.tolist() == pytest.approx(expected)
    assert not fell_back
    assert discounts(np.array([1, 1, 2]))[0].tolist() == [0.5, 1.0, 1.5]
    # Counts of counts that rise would ask for a negative discount.
    assert discounts(np.repeat([1, 2, 3, 4], [50, 5, 50, 50]))[1]


def test_counts_of_lower_orders_are_of_words_before() -> None:
    vocabulary = Vocabulary(("<S>", "<unk>", "new", "york", "the"))
    text = [["new", "york"], ["the", "york"], ["new", "york"]]
    stream = sentence_stream(encode_corpus(text, vocabulary), 0)
    unigrams, bigrams = adjusted_counts(count_ngrams(stream, 2, 5, 0))
    assert unigrams.tolist() == [1, 0, 1, 2, 1]
    assert sorted(bigrams.tolist()) == [1, 1, 2, 2, 3]


# Figures of KenLM's lmplz, no pruning, <unk> an ordinary word, </s> counted.
@pytest.mark.data
@pytest.mark.parametrize(("order", "kenlm"), [(2, 185.70), (3, 148.28), (5, 141.19)])
def test_penn_treebank_perplexity_is_that_of_kenlm(
    data_folder: Path, order: int, kenlm: float
) -> None:
    folder = data_folder / "ptb-lm"
    model = NgramLanguageModel(order).fit(folder / "train.txt.gz")
    assert model.perplexity(folder / "test.txt") == pytest.approx(kenlm, abs=0.01)
