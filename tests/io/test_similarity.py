"""Word pairs and analogies: what files may hold, and complaints that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.errors import DataError
from mrflearn.io.similarity import Analogy, WordPair, read_analogies, read_pairs, write_analogies


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("tiger\tcat\t7.35\n\nold new 1.58 extra\n")
    assert list(read_pairs(tmp_path / "p.txt")) == [
        WordPair("tiger", "cat", 7.35),
        WordPair("old", "new", 1.58),
    ]
    for line, says in (("tiger cat", "two words"), ("a b x", "not a score"), ("a b nan", "score")):
        (tmp_path / "p.txt").write_text("a b 1\n" + line)
        with pytest.raises(DataError, match=says) as caught:
            list(read_pairs(tmp_path / "p.txt"))
        assert caught.value.line == 2


def test_analogies(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(": capital cities\nAthens Greece Paris France\n")
    questions = list(read_analogies(tmp_path / "a.txt"))
    assert questions == [Analogy("capital cities", "Athens", "Greece", "Paris", "France")]
    with pytest.raises(DataError, match="begin with"):
        write_analogies(tmp_path / "b.txt", [Analogy("", ":", "b", "c", "d")])
    (tmp_path / "a.txt").write_text("a b c\n")
    with pytest.raises(DataError, match="four words"):
        list(read_analogies(tmp_path / "a.txt"))


@pytest.mark.data
def test_published_sets_have_their_published_sizes(data_folder: Path) -> None:
    folder = data_folder / "word-similarity"
    assert len(list(read_pairs(folder / "EN-WS-353-ALL.txt"))) == 353
    assert len(list(read_pairs(folder / "EN-MEN-TR-3k.txt"))) == 3000
    assert len(list(read_analogies(folder / "questions-words.txt"))) == 19544
