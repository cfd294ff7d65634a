from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.corpus import LINE_END, read_blocks, read_sentences, words_of

marks = st.sampled_from(["", "\ufeff"])
texts = st.builds(str.__add__, marks, st.text("ab é\ufeff\u00a0\u3000 \t\r\x0b\n", max_size=60))


def sentences_of_blocks(paths, size):
    words = [word for block in read_blocks(*paths, size=size) for word in words_of(block)]
    lines, line = [], []
    for word in words:
        if word == LINE_END:
            lines.append(line)
            line = []
        else:
            line.append(word.decode("utf-8"))
    assert line == []
    return [line for line in lines if line]


@given(texts, texts, st.integers(30, 200))
def test_blocks_hold_the_sentences_that_the_text_reader_gives(tmp_path_factory, one, two, size):
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "one.txt").write_bytes(one.encode())
    (folder / "two.gz").write_bytes(gzip.compress(two.encode()))
    paths = [folder / "one.txt", folder / "two.gz"]
    assert sentences_of_blocks(paths, size) == list(read_sentences(*paths))


def test_blocks_are_cut_between_words(tmp_path):
    path = tmp_path / "text"
    path.write_text("alpha beta gamma\ndelta")
    assert list(read_blocks(path, size=8)) == [b"alpha ", b"beta ", b"gamma\n", b"delta\n"]


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc")))
    assert b"".join(read_blocks("-")) == b"a b\nc\n"


def test_a_wrong_byte_is_reported_with_its_line(tmp_path):
    path = tmp_path / "junk"
    path.write_bytes(b"good line\n" * 5 + b"b\xffd line\n")
    with pytest.raises(DataError, match=r"junk:6: .*not UTF-8"):
        list(read_blocks(path, size=20))


def test_endless_words_are_refused(tmp_path):
    path = tmp_path / "junk"
    path.write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="without a space"):
        list(read_blocks(path, size=20))
