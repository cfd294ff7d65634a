from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.corpus import read_sentences, write_sentences
from mrflearn.io.files import split_tokens


def test_blank_lines_are_skipped_or_kept_as_empty_sentences(tmp_path):
    path = tmp_path / "text"
    path.write_text(" a b \n\n \t\nc", encoding="utf-8")
    assert list(read_sentences(path)) == [["a", "b"], ["c"]]
    assert list(read_sentences(path, keep_blank=True)) == [["a", "b"], [], [], ["c"]]


def test_several_files_are_read_in_turn_and_dash_is_stdin(tmp_path, monkeypatch):
    (tmp_path / "one").write_bytes(b"a\n")
    (tmp_path / "two").write_bytes(b"b\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"c d\n")))
    sentences = read_sentences(tmp_path / "one", "-", tmp_path / "two")
    assert list(sentences) == [["a"], ["c", "d"], ["b"]]


def test_a_later_file_that_is_missing_does_not_hide_the_first(tmp_path):
    (tmp_path / "one").write_bytes(b"a\n")
    sentences = read_sentences(tmp_path / "one", tmp_path / "absent")
    assert next(sentences) == ["a"]
    with pytest.raises(DataError, match="absent"):
        next(sentences)


@given(st.text())
def test_tokens_are_set_apart_by_ascii_white_space_alone(line):
    assert [token.encode() for token in split_tokens(line)] == line.encode().split()


@pytest.mark.parametrize("sentence", [["a b"], [""], ["a", "b\n"]])
def test_a_token_that_cannot_be_read_back_is_refused(tmp_path, sentence):
    with pytest.raises(DataError, match="sentence 2"):
        write_sentences(tmp_path / "out", [["fine"], sentence])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "lines", "words", "types"),
    [
        ("ptb-lm/train.txt.gz", 42_068, 887_521, 9_999),
        ("ptb-lm/valid.txt", 3_370, 70_390, 6_021),
        ("ptb-lm/test.txt", 3_761, 78_669, 6_048),
        ("wikitext-2/wiki.train.tokens.gz", 36_718, 2_051_910, 33_277),
        ("wikitext-2/wiki.valid.tokens", 3_760, 213_886, None),
    ],
)
def test_counts_of_real_text(data_folder, name, lines, words, types):
    sentences = list(read_sentences(data_folder / name, keep_blank=True))
    assert len(sentences) == lines
    assert sum(map(len, sentences)) == words
    if types is not None:
        assert len({token for tokens in sentences for token in tokens}) == types


@pytest.mark.data
def test_blank_lines_of_wikitext(data_folder):
    assert sum(1 for _ in read_sentences(data_folder / "wikitext-2/wiki.train.tokens.gz")) == 23_767
