"""A path and lists of words mean the same corpus."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from mrflearn.errors import DataError
from mrflearn.io.corpus import LINE_END_ID, Vocabulary, count_corpus, encode_corpus, hold

SENTENCES = [["a", "b"], ["b"], ["c", "a", "a"]]


def test_path_and_lists_agree(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b\nb\nc a a\n")
    vocabulary = Vocabulary(("<S>", "<unk>", "a", "b"))
    assert count_corpus(path) == count_corpus(SENTENCES) == {"a": 3, "b": 2, "c": 1}
    expected = [2, 3, LINE_END_ID, 3, LINE_END_ID, 1, 2, 2, LINE_END_ID]
    assert encode_corpus(SENTENCES, vocabulary).tolist() == expected
    # A file ends with a line end even where its last line already does.
    assert encode_corpus(path, vocabulary).tolist()[: len(expected)] == expected


def test_an_iterator_can_be_read_twice_once_held() -> None:
    held = hold(iter(SENTENCES))
    assert count_corpus(held) == count_corpus(held) == count_corpus(SENTENCES)


def test_standard_input_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a b\nb\nc a a\n")))
    assert hold("-") == SENTENCES


def test_strings_are_not_sentences() -> None:
    with pytest.raises(DataError, match=r"sentence 1 is 'the cat'.*Split"):
        hold([["a"], "the cat"])


def test_a_text_is_no_path() -> None:
    with pytest.raises(DataError, match="this is the text itself, 'a b"):
        hold("a b\nc d\n")
