"""LogBilinearLanguageModel learns structure a unigram model cannot, and survives storage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from mrflearn import NgramLanguageModel
from mrflearn.errors import MrflearnError, NotFittedError, StorageError
from mrflearn.estimators.log_bilinear import LogBilinearLanguageModel

TEXT = [line.split() for line in ("a b c d", "c d a b", "b c d")] * 20


@pytest.mark.parametrize("optimiser", ["adagrad", "sgd"])
def test_it_learns_the_order_of_words(optimiser: str) -> None:
    rate = {"adagrad": 0.3, "sgd": 1.0}[optimiser]
    model = LogBilinearLanguageModel(
        context=2, dims=6, optimiser=optimiser, rate=rate, batch_size=16, epochs=25
    )
    model.fit(TEXT, valid=TEXT)
    unigram = NgramLanguageModel(order=1).fit(TEXT).perplexity(TEXT)
    # Given two words before, no model of this text has a perplexity below 1.601.
    assert 1.6 < model.perplexity(TEXT) < 1.7 < unigram
    assert model.next_word(["a", "b"], top=1)[0][0] in ("c", "</s>")
    assert dict(model.next_word(["c", "d"], top=99)).keys() == {*"abcd", "<unk>", "</s>"}


def test_scores_equal_next_words() -> None:
    model = LogBilinearLanguageModel(context=3, dims=4, epochs=2).fit(TEXT)
    scores = model.token_scores([["a", "d"], ["zebra"]])
    expected = []
    for words in (["a", "d", "</s>"], ["<unk>", "</s>"]):
        for i, word in enumerate(words):
            expected.append(np.log(dict(model.next_word(words[:i], top=99))[word]))
    np.testing.assert_allclose(scores.log_probability, expected, rtol=1e-5)
    assert scores.ends.tolist() == [False, False, True, False, True]
    assert scores.unknown.tolist() == [False, False, False, True, False]


def test_save_load_clone_and_seeds(tmp_path: Path) -> None:
    model = LogBilinearLanguageModel(dims=4, epochs=1, random_state=3).fit(TEXT)
    model.save(tmp_path / "m")
    back = LogBilinearLanguageModel.load(tmp_path / "m")
    assert back.score(TEXT) == model.score(TEXT)
    again = clone(model).fit(TEXT)
    np.testing.assert_array_equal(again.vectors_, model.vectors_)
    NgramLanguageModel().fit(TEXT).save(tmp_path / "n")
    with pytest.raises(StorageError, match="NgramLanguageModel"):
        LogBilinearLanguageModel.load(tmp_path / "n")


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        LogBilinearLanguageModel().score(TEXT)
    with pytest.raises(MrflearnError, match="give valid"):
        LogBilinearLanguageModel(optimiser="sgd").fit(TEXT)
    with pytest.raises(MrflearnError, match="'adam' is not one of"):
        LogBilinearLanguageModel(optimiser="adam").fit(TEXT)
