"""The choice between "a" and "an" against a list by hand."""

from __future__ import annotations

import pytest

from mrflearn.datasets.english import indefinite_article


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
