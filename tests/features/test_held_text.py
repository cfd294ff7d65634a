"""A text in pieces that an executor holds is counted as the text in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn import NgramLanguageModel
from mrflearn.errors import DataError, SettingsError
from mrflearn.execution.executor import Executor, Processes, Serial
from mrflearn.features.moments import count_text_shards
from mrflearn.features.ngrams import CountNgrams, count_held_ngrams, count_ngrams, sentence_stream
from mrflearn.io.corpus import Vocabulary, encode_corpus, read_sentences
from support.text_shards import assert_same_moments, write_shards


@pytest.fixture(params=["serial", "processes"])
def place(request: pytest.FixtureRequest, processes: Processes) -> Executor:
    return Serial() if request.param == "serial" else processes


@pytest.mark.parametrize("order", [1, 2, 5])
def test_ngrams_of_pieces_are_those_of_the_text(
    place: Executor, order: int, tmp_path: Path
) -> None:
    whole, shards = write_shards(tmp_path)
    words = Vocabulary(("<S>", "<unk>", *(f"w{n}" for n in range(0, 30, 2))))
    stream = sentence_stream(encode_corpus(whole, words), words.separator)
    expected = count_ngrams(stream, order, len(words), words.separator)
    with place.hold([*shards, []]) as held:  # the last piece has no sentence
        found = count_held_ngrams(held, order, words)
    for mine, wanted in zip(found, expected, strict=True):
        for name in ("code", "count", "suffix", "begins"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(wanted, name))


def test_each_ngram_goes_to_one_piece_by_its_first_word() -> None:
    words = Vocabulary(("<S>", "<unk>", "a", "b"))
    parts = CountNgrams(words, 2, 3)([["a", "b"], ["b"]])
    assert len(parts) == 6
    for number, part in enumerate(parts):
        assert (part.ids[:, 0] % 3 == number % 3).all()
    pairs = np.concatenate([part.ids for part in parts[3:]])
    assert sorted(map(tuple, pairs.tolist())) == [(0, 2), (0, 3), (2, 3), (3, 0)]


def test_a_model_of_pieces_is_the_model_of_the_text(place: Executor, tmp_path: Path) -> None:
    whole, shards = write_shards(tmp_path)
    model = NgramLanguageModel(4, min_count=2).fit(whole)
    with place.hold([list(read_sentences(path)) for path in shards]) as held:
        found = NgramLanguageModel(4, min_count=2).fit(held)
        moments = count_text_shards(held, min_count=2)
    model.export(tmp_path / "one.arpa")
    found.export(tmp_path / "pieces.arpa")
    assert (tmp_path / "one.arpa").read_text() == (tmp_path / "pieces.arpa").read_text()
    assert_same_moments(moments, count_text_shards([whole], Serial(), min_count=2))


def test_pieces_without_words_or_before_the_tokenizer_are_refused() -> None:
    with Serial().hold([[], []]) as held:
        with pytest.raises(DataError, match="no words"):
            NgramLanguageModel(2).fit(held)
        with pytest.raises(SettingsError, match="tokenize=True"):
            NgramLanguageModel(2, tokenize=True).fit(held)
