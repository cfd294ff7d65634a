"""Templates of CRF++ and Wapiti, and the built-in features of words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.errors import DataError
from mrflearn.features.index import edge
from mrflearn.features.recipes import Templates, read_template, word_features, word_shape

WORDS = ("He", "reckons", "the")
TAGS = ("PRP", "VBZ", "DT")


def test_templates_read_cells_around_each_token(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text(
        "# Unigram\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\nU02:100%\nB\n\nu:x=%x[ 2 , 0 ]!\nb\n"
    )
    templates = Templates.of(read_template(file))
    assert templates.columns == 2
    assert templates((WORDS, TAGS)) == [
        ["U00:_B-2", "U01:He/VBZ", "U02:100%", "u:x=the!"],
        ["U00:_B-1", "U01:reckons/DT", "U02:100%", "u:x=_B+1!"],
        ["U00:He", "U01:the/_B+1", "U02:100%", "u:x=_B+2!"],
    ]


def test_marks_count_from_the_end_of_the_sentence(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text("U:%x[-3,0]%x[3,0]\n")
    assert Templates.of(read_template(file))((("w",),)) == [["U:_B-3_B+3"]]


def test_lines_of_b_make_attributes_of_transitions(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text("U00:%x[0,0]\nB\nB01:%x[-1,0]/%x[0,1]\n*02:%x[0,1]\n")
    assert Templates.of(read_template(file))((WORDS, TAGS))[1] == [
        "U00:reckons",
        edge("B01:He/VBZ"),
        "*02:VBZ",
        edge("*02:VBZ"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("X01:%x[0,0]", "template:1: .*should begin with U"),
        ('u:%m[0,0,"a"]', "template:1: .*'%m'"),
    ],
)
def test_lines_that_are_no_templates(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "template"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=words):
        Templates.of(read_template(file))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text("U:%x[0,3]\n")
    with pytest.raises(DataError, match=r"read column 3 .* there are 2"):
        Templates.of(read_template(file))((WORDS, TAGS))


def test_a_sentence_without_words_has_no_attributes(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_text("U:%x[0,0]\n")
    assert Templates.of(read_template(file))(((), ())) == []


def test_word_features_look_at_spelling_and_neighbours() -> None:
    first, second, third = word_features(WORDS)
    assert {"w[0]=He", "lower=he", "shape=Aa", "capital", "w[-1]=<start>", "w[2]=the"} <= set(first)
    assert {"prefix=reck", "suffix=kons", "w[-1,0]=He|reckons", "w[0,1]=reckons|the"} <= set(second)
    assert "w[1]=<end>" in third
    assert not any(name.startswith("c1") for name in first)
    tagged = word_features(list(zip(WORDS, TAGS, strict=True)))
    assert {"column2[0]=VBZ", "column2[-1,0]=PRP|VBZ", "w[0]=reckons"} <= set(tagged[1])
    assert word_features([]) == []


def test_word_shapes() -> None:
    assert word_shape("U.S.-based") == "A.A.-aa"
    assert word_shape("1994-03-24") == "00-00-00"
    assert {"digit", "hyphen"} <= set(word_features(["3-D"])[0])
    assert "capitals" in word_features(["NASA"])[0]


def test_ragged_tokens_are_refused() -> None:
    with pytest.raises(DataError, match="same number of cells"):
        word_features([("a", "b"), ("c",)])


@pytest.mark.parametrize("cell", ["-1000000000,0", "0,99999", "0," + "9" * 5000])
def test_cells_out_of_all_reach_are_refused(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(f"U1:%x[0,0]\nU2:%x[{cell}]\n")
    with pytest.raises(DataError, match="t:2: "):
        read_template(tmp_path / "t")
