"""GRMM's lines of several labels and features."""

from __future__ import annotations

import pytest

from mrflearn.errors import DataError
from mrflearn.io.grmm import LayeredSequence, read_grmm, write_grmm


def test_labels_stand_before_the_dashes_and_features_behind(tmp_path):
    path = tmp_path / "given.txt"
    path.write_text("DT B-NP ---- w=The cap\nNN I-NP ----\n\n\n. O ---- w=. ----\n")
    first, second = read_grmm(path)
    assert first.layers == (("DT", "NN"), ("B-NP", "I-NP"))
    assert first.features == (("w=The", "cap"), ())
    assert second == LayeredSequence(((".",), ("O",)), (("w=.", "----"),))
    assert len(first) == 2


def test_a_file_without_labels_begins_with_dashes(tmp_path):
    path = tmp_path / "given.txt"
    path.write_text("---- w=The\n---- w=dog\n")
    (sequence,) = read_grmm(path)
    assert sequence.layers == ()
    write_grmm(tmp_path / "again.txt", [sequence])
    assert list(read_grmm(tmp_path / "again.txt")) == [sequence]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("DT B-NP w=The\n", 1, "no '----'"),
        ("DT B-NP ---- a\n\nNN ---- a\n", 3, "1 labels where the lines before have 2"),
        ("---- a\nDT ---- a\n", 2, "1 labels where the lines before have 0"),
    ],
)
def test_a_complaint_names_the_line(tmp_path, text, line, problem):
    path = tmp_path / "given.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=problem) as complaint:
        list(read_grmm(path))
    assert f"given.txt:{line}" in str(complaint.value)


@pytest.mark.parametrize("label", ["", "a b", "----"])
def test_what_cannot_be_read_back_is_not_written(tmp_path, label):
    with pytest.raises(DataError, match=r"cannot be written|labels where"):
        write_grmm(tmp_path / "out.txt", [LayeredSequence(((label,),), (("w",),))])
    assert not (tmp_path / "out.txt").exists()


def test_layers_of_different_lengths_are_refused():
    with pytest.raises(DataError, match=r"layers of \[2, 1\] labels for 2 tokens"):
        LayeredSequence((("a", "b"), ("c",)), ((), ()))
