"""Spelling of inflected words against a list by hand."""

from __future__ import annotations

import pytest

from mrflearn.datasets.english import gerund, indefinite_article, past, plural


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("match", "matches"),
        ("box", "boxes"),
        ("pass", "passes"),
        ("city", "cities"),
        ("valley", "valleys"),
        ("echo", "echoes"),
        ("studio", "studios"),
        ("play", "plays"),
    ],
)
def test_plural(word, expected):
    assert plural(word) == expected


@pytest.mark.parametrize(
    ("verb", "expected_past", "expected_gerund"),
    [
        ("kick", "kicked", "kicking"),
        ("bake", "baked", "baking"),
        ("chop", "chopped", "chopping"),
        ("carry", "carried", "carrying"),
        ("play", "played", "playing"),
        ("boil", "boiled", "boiling"),
        ("fix", "fixed", "fixing"),
        ("strum", "strummed", "strumming"),
        ("open", "opened", "opening"),
        ("agree", "agreed", "agreeing"),
        ("mix", "mixed", "mixing"),
    ],
)
def test_verbs(verb, expected_past, expected_gerund):
    assert (past(verb), gerund(verb)) == (expected_past, expected_gerund)


@pytest.mark.parametrize(
    "word", ["apple", "hour", "honest", "urgent", "unfair", "Olympic", "Irish"]
)
def test_an(word):
    assert indefinite_article(word) == "an"


@pytest.mark.parametrize(
    "word", ["ball", "useful", "unit", "university", "European", "host", "year"]
)
def test_a(word):
    assert indefinite_article(word) == "a"
