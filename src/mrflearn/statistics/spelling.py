"""What a tagger reads off a word: the word itself, its beginnings and ends, and its shape.

[Jernite, Rush, Sontag 2015, appendix B]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csr_array

LONGEST_AFFIX = 4


def spelling(word: str, *, shape: bool) -> list[str]:
    """The features of a word; `shape` adds the eight of the word right below a tag."""
    found = [f"word={word}"]
    for length in range(1, min(LONGEST_AFFIX, len(word)) + 1):
        found += (f"prefix={word[:length]}", f"suffix={word[-length:]}")
    return found + shapes(word) if shape else found


def shapes(word: str) -> list[str]:
    """Which of the eight shape features a word has."""
    upper, capital = word.isupper(), word[:1].isupper()
    asked = {
        "upper": upper,
        "capital": capital,
        "ends in s": word.endswith("s"),
        "capital, ends in s": capital and word.endswith("s"),
        "upper, ends in S": upper and word.endswith("S"),
        "digit": any(letter.isdigit() for letter in word),
        "all digits": word.isdigit(),
        "hyphen": "-" in word,
    }
    return [f"shape={name}" for name, holds in asked.items() if holds]


@final
@dataclass(frozen=True, eq=False)
class SpellingTable:
    """Which features each word has, by number: a sparse table of ones, words by features."""

    number: Mapping[str, int]
    matrix: csr_array
    shape: bool

    @classmethod
    def of(cls, words: Iterable[str], *, shape: bool) -> SpellingTable:
        """The table of a vocabulary, whose features get their numbers as they come."""
        number: dict[str, int] = {}
        rows = [
            [number.setdefault(f, len(number)) for f in spelling(w, shape=shape)] for w in words
        ]
        return cls(number, _table(rows, len(number)), shape)

    @property
    def names(self) -> list[str]:
        """The features in the order of their numbers."""
        return list(self.number)

    def rows(self, words: Iterable[str]) -> csr_array:
        """The rows of any words; features this table does not know count for nothing."""
        found = [
            [self.number[f] for f in spelling(word, shape=self.shape) if f in self.number]
            for word in words
        ]
        return _table(found, len(self.number))


def _table(rows: list[list[int]], columns: int) -> csr_array:
    starts = np.cumsum([0, *map(len, rows)])
    entries = np.array([column for row in rows for column in row], dtype=np.int64)
    return csr_array((np.ones(len(entries)), entries, starts), shape=(len(rows), columns))
