"""What a tagger reads off a word: the word itself, its beginnings and ends, and its shape.

[Jernite, Rush, Sontag 2015, appendix B]  Not in the paper: whether the word is rare, from which
taggers learn what tags words have that they have never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csr_array

LONGEST_AFFIX = 4
RARE = "rare"


def spelling(word: str) -> list[str]:
    """The features of a word, wherever it stands: itself, and what it begins and ends with."""
    found = [f"word={word}"]
    for length in range(1, min(LONGEST_AFFIX, len(word)) + 1):
        found += (f"prefix={word[:length]}", f"suffix={word[-length:]}")
    return found


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


def below(word: str, *, rare: bool) -> list[str]:
    """The features of the word right below a tag, which has eight shapes besides."""
    return [*spelling(word), *shapes(word), *([RARE] if rare else ())]


@final
@dataclass(frozen=True, eq=False)
class SpellingTable:
    """Which features each word has, by number: a sparse table of ones, words by features.

    Words stand by falling frequency; those from `rare_from` on are rare.  None: the table is of
    words beside a tag, not below it.
    """

    number: Mapping[str, int]
    matrix: csr_array
    rare_from: int | None

    @classmethod
    def of(cls, words: Sequence[str], rare_from: int | None) -> SpellingTable:
        """The table of a vocabulary, whose features get their numbers as they come."""
        number: dict[str, int] = {}
        found = [
            spelling(word) if rare_from is None else below(word, rare=index >= rare_from)
            for index, word in enumerate(words)
        ]
        rows = [[number.setdefault(name, len(number)) for name in own] for own in found]
        return cls(number, _table(rows, len(number)), rare_from)

    def rows(self, words: Iterable[str]) -> csr_array:
        """The rows of new words; features this table does not know count for nothing."""
        features = [
            spelling(word) if self.rare_from is None else below(word, rare=True) for word in words
        ]
        found = [[self.number[name] for name in own if name in self.number] for own in features]
        return _table(found, len(self.number))


def _table(rows: list[list[int]], columns: int) -> csr_array:
    starts = np.cumsum([0, *map(len, rows)])
    entries = np.array([column for row in rows for column in row], dtype=np.int64)
    return csr_array((np.ones(len(entries)), entries, starts), shape=(len(rows), columns))
