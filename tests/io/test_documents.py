"""Documents in files and folders: read, written, and complained about."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.errors import DataError
from mrflearn.io.corpus import hold_documents, read_documents, write_documents

DOCUMENTS = [[["a", "b"], ["c"]], [["d"]]]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    write_documents(path, DOCUMENTS)
    assert path.read_text() == "a b\nc\n\nd\n"
    assert list(read_documents(path)) == hold_documents(path) == DOCUMENTS


def test_blank_lines_and_folders(tmp_path: Path) -> None:
    (tmp_path / "2.txt").write_text("\n\nd\n\n\n")
    (tmp_path / "1.txt").write_text("a b\nc")
    (tmp_path / "sub").mkdir()
    assert list(read_documents(tmp_path)) == DOCUMENTS


def test_lines_of_json_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "a b\\n\\nc", "id": 1}\n\n{"text": "d"}\n{"text": ""}\n')
    assert list(read_documents(path)) == [*DOCUMENTS, []]
    for wrong in ('{"words": "a"}', '"a"', '{"text": 3}', "a b"):
        path.write_text('{"text": "a"}\n' + wrong)
        with pytest.raises(DataError, match="line") as caught:
            list(read_documents(path))
        assert f"{path}:2" in str(caught.value)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no files"):
        list(read_documents(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        list(read_documents(tmp_path / "absent"))
    for wrong in (["a b", "c"], [["a b", "c"]]):
        with pytest.raises(DataError, match="document 1 is not a list"):
            hold_documents(wrong)
    for wrong in ([[["", "a"]]], [[["a b"]]]):
        with pytest.raises(DataError, match="white space"):
            write_documents(tmp_path / "d", wrong)


def test_numbers_are_no_sentences() -> None:
    with pytest.raises(DataError, match="document 1 is not a list of sentences"):
        hold_documents([[1, 2]])  # type: ignore[list-item]
    with pytest.raises(DataError, match="document 1 is not a list of sentences"):
        hold_documents([3])  # type: ignore[list-item]
