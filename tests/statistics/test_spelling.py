"""The features of words, as appendix B of the paper lists them."""

from __future__ import annotations

import pytest

from mrflearn.statistics.spelling import SpellingTable, shapes, spelling


def test_word_and_affixes():
    assert spelling("cat", shape=False) == [
        "word=cat",
        *("prefix=c", "suffix=t", "prefix=ca", "suffix=at", "prefix=cat", "suffix=cat"),
    ]
    longest = [f for f in spelling("running", shape=False) if len(f) > len("prefix=run")]
    assert longest == ["word=running", "prefix=runn", "suffix=ning"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("USS", ["upper", "capital", "upper, ends in S"]),
        ("James", ["capital", "ends in s", "capital, ends in s"]),
        ("cats", ["ends in s"]),
        ("1984", ["digit", "all digits"]),
        ("mid-1984", ["digit", "hyphen"]),
        ("", []),
        ("walk", []),
    ],
)
def test_shapes(word, expected):
    assert shapes(word) == [f"shape={name}" for name in expected]


def test_tables_have_the_features_of_words_known_and_new():
    table = SpellingTable.of(["ab", "b"], shape=True)
    assert table.matrix.shape == (2, len(table.number))
    found = {
        name for name, held in zip(table.number, table.matrix.toarray()[0], strict=True) if held
    }
    assert found == set(spelling("ab", shape=True))
    assert (table.rows(["ab", "b"]) - table.matrix).count_nonzero() == 0
    new = table.rows(["xb", ""]).toarray()
    assert {n for n, held in zip(table.number, new[0], strict=True) if held} == {"suffix=b"}
    assert new[1].sum() == 0
