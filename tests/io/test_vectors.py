"""Word vectors: exact round trips in both formats, what other programs write, complaints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mrflearn.errors import DataError
from mrflearn.io.vectors import NamedVectors, read_vectors, write_vectors


@st.composite
def word_vectors(draw: st.DrawFn) -> NamedVectors:
    words, dimensions = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    figures = st.floats(width=32, allow_nan=False, allow_infinity=False)
    values = draw(arrays(np.float32, (words, dimensions), elements=figures))
    name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \n\r"), min_size=1)
    names = draw(st.lists(name, min_size=words, max_size=words))
    return NamedVectors(tuple(names), values)


@pytest.mark.parametrize("layout", ["text", "binary"])
@pytest.mark.parametrize("asked", ["auto", "exactly"])
@given(vectors=word_vectors())
def test_round_trip_without_loss(tmp_path_factory, layout, asked, vectors: NamedVectors) -> None:
    path = tmp_path_factory.mktemp("vectors") / "words.vec.gz"
    write_vectors(path, vectors, layout)
    again = read_vectors(path, layout if asked == "exactly" else "auto")
    assert again.names == vectors.names
    assert again.values.dtype == np.float32
    np.testing.assert_array_equal(again.values, vectors.values)


def test_lines_may_end_in_a_space(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("2 3\n</s> 0.5 -1 2e-3 \ncaf\u00e9\u00a0x 1 2 3 \n".encode())
    vectors = read_vectors(path)
    assert vectors.names == ("</s>", "caf\u00e9\u00a0x")
    np.testing.assert_array_equal(vectors.values, np.float32([[0.5, -1, 2e-3], [1, 2, 3]]))


def test_binary_vectors_may_come_without_newlines(tmp_path: Path) -> None:
    path = tmp_path / "words.bin"
    rows = np.float32([[1, 2], [3, 4]])
    path.write_bytes(b"2 2\na " + rows[0].tobytes() + b"b " + rows[1].tobytes())
    vectors = read_vectors(path)
    assert vectors.names == ("a", "b")
    np.testing.assert_array_equal(vectors.values, rows)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "first line"),
        (b"hello world\n", "first line"),
        (b"3 0\n", "first line"),
        (b"-1 3\n", "first line"),
        (b"999999999 300\na 1 2\n", "bytes follow"),
        (b"1 99999999999\na 1 2\n", "bytes follow"),
        (b"2 2\na 1 2\n", "cut short"),
        (b"1 2\na 1 2\nb 3 4\n", "2 lines follow"),
        (b"2 2\na 1 2\nbb 3\n", "1 figures"),
        (b"2 2\na 1 2\nb 3 x\n", "'x'"),
        (b"2 2\na 1 2\nb 3 nan\n", "no finite number"),
        (b"2 2\na 1 2\nb 3 1e300\n", "no finite number"),
        (b"2 2\na 1 2\n\xff\xfe 3 4\n", "utf-8"),
        (b"2 2\na \x00\x00\x80?\x00\x00\x80?\nb \x00\x00\x80?", "cut short"),
        (b"1 2\na \x00\x00\x80?\x00\x00\x80?\njunk", "bytes follow the last"),
        (b"1 1\n\xff\xfe \x00\x00\x80?", "not UTF-8"),
        (b"1 1\na \x00\x00\xc0\x7f", "no finite number"),
        (b"\x89PNG\r\n\x1a\n", "word2vec file"),
    ],
)
def test_complaints(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "words"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_vectors(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["", "two words", "two\nlines", "\ud800"])
def test_words_that_would_not_come_back(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="the word"):
        write_vectors(tmp_path / "words", NamedVectors((name,), np.ones((1, 2), np.float32)))
    assert not list(tmp_path.iterdir())


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(DataError, match="1 words"):
        NamedVectors(("a",), np.ones((2, 2), np.float32))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1 2\na nan inf\n", 2),  # eight bytes after the word, as two binary numbers have
        (b"1 2\na 12,5 1,3\n", 2),
        (b"2 2\na 1 2\nb 1 -inf\n", 3),
        (b"2 1\na 1e39\nb 1\n", 2),
        (b"1 2\n\xe9 0.5 0.25\n", 2),  # not UTF-8
    ],
)
def test_text_with_odd_numbers_is_not_taken_for_binary(
    content: bytes, line: int, tmp_path: Path
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_vectors(path)
    assert (refused.value.path, refused.value.line) == (path, line)


@pytest.mark.parametrize(
    "header",
    [b"1000000000000 2", b"2 1000000000000", b"9" * 40 + b" 1", b"0 18446744073709551615"],
)
def test_sizes_that_no_file_has_are_refused_before_memory_is_taken(
    header: bytes, tmp_path: Path
) -> None:
    (tmp_path / "vectors").write_bytes(header + b"\na 1 2\n")
    with pytest.raises(DataError, match="vectors:1: "):
        read_vectors(tmp_path / "vectors")
