"""A figure that several pages quote is the same on all of them: that of its committed run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NUMBER = r"([\d.,]+)"
RESULTS = "benchmarks/RESULTS.md"
# What is quoted: {page: a pattern with a group for each of its numbers}; the first page is right.
FIGURES = {
    "inside and outside of a sentence": {
        RESULTS: rf"outside, 1 x 20 words +{NUMBER} +torch-struct +{NUMBER} ",
        "README.md": rf"of 20 words, .* \| {NUMBER} ms \| torch-struct: {NUMBER} ms",
        "docs/decisions/charts.md": rf"1 x 20 words \| {NUMBER} \| torch-struct {NUMBER} \|",
    },
    "inside and outside of eight": {
        RESULTS: rf"outside, 8 x 20 words +{NUMBER} +torch-struct +{NUMBER} ",
        "README.md": rf"eight at a time: {NUMBER} ms against {NUMBER}\)",
        "docs/decisions/charts.md": rf"8 x 20 words \| {NUMBER} \| {NUMBER} \|",
    },
    "piecewise training in GRMM's setting": {
        "docs/decisions/local-estimators.md": rf"\| pw \| 0.065 \| {NUMBER} s",
        "README.md": rf"GRMM's setting .* \| {NUMBER} s \| GRMM",
    },
    "word vectors, agreement with people": {
        "docs/decisions/word-vectors.md": rf"20 epochs \| 30 \| {NUMBER} \| {NUMBER} \|",
        "docs/start/word-vectors.md": rf"20 epochs \| {NUMBER} \| {NUMBER} \|",
        "README.md": rf"20 epochs: {NUMBER} / {NUMBER} in",
    },
    "a protein family": {
        RESULTS: rf"1atzA.aln: {NUMBER} s on the clock",
        "README.md": rf"family 1atzA, .* \| {NUMBER} s to 91,332",
        "docs/papers/potts.md": rf"1atzA, .* 81 evaluations, {NUMBER} CPU s \|",
    },
}


@pytest.mark.parametrize("name", FIGURES)
def test_pages_quote_the_same_figures(name: str) -> None:
    quoted = {}
    for page, pattern in FIGURES[name].items():
        found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"))
        assert found is not None, f"{page} does not quote it as {pattern}"
        quoted[page] = [float(number.replace(",", "")) for number in found.groups()]
    assert len({tuple(numbers) for numbers in quoted.values()}) == 1, quoted
