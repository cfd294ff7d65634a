"""The features of words, as appendix B of the paper lists them."""

from __future__ import annotations

import pytest

from mrflearn.features.spelling import SpellingTable, below, shapes, spelling


def test_word_and_affixes():
    assert spelling("cat") == [
        "word=cat",
        *("prefix=c", "suffix=t", "prefix=ca", "suffix=at", "prefix=cat", "suffix=cat"),
    ]
    longest = [f for f in spelling("running") if len(f) > len("prefix=run")]
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


def test_words_below_a_tag_have_shapes_and_are_rare_or_not():
    assert below("cats", rare=True) == [*spelling("cats"), "shape=ends in s", "rare"]
    assert below("cat", rare=False) == spelling("cat")


@pytest.mark.parametrize("rare_from", [None, 1])
def test_tables_have_the_features_of_words_known_and_new(rare_from):
    def features(words, table):
        rows = zip(words, table.toarray(), strict=True)
        return {
            word: {n for n, held in zip(own.number, row, strict=True) if held} for word, row in rows
        }

    own = SpellingTable.of(["a1", "b1"], rare_from)
    rare = set() if rare_from is None else {"rare"}
    digit = set() if rare_from is None else {"shape=digit"}
    assert features(["a1", "b1"], own.matrix) == {
        "a1": {*spelling("a1"), *digit},
        "b1": {*spelling("b1"), *digit, *rare},
    }
    assert features(["x1", ""], own.rows(["x1", ""])) == {
        "x1": {"suffix=1", *digit, *rare},
        "": rare,
    }
