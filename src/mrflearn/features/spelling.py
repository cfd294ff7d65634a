"""What a tagger reads off a word: the word itself, its beginnings and ends, and its shape.

[Jernite, Rush, Sontag 2015, appendix B]  Not in the paper: whether the word is rare, from which
taggers learn what tags words have that they have never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csr_array

from mrflearn.features.features import CompiledFeatures, Numbering, compile_features

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

    number: Numbering
    matrix: csr_array
    rare_from: int | None

    @classmethod
    def of(cls, words: Sequence[str], rare_from: int | None) -> SpellingTable:
        """The table of a vocabulary, whose features get their numbers as they come."""
        found = [
            spelling(word) if rare_from is None else below(word, rare=index >= rare_from)
            for index, word in enumerate(words)
        ]
        compiled = compile_features([found])
        return cls(compiled.names, _table(compiled), rare_from)

    def rows(self, words: Iterable[str]) -> csr_array:
        """The rows of new words; features this table does not know count for nothing."""
        plain = self.rare_from is None
        found = [spelling(word) if plain else below(word, rare=True) for word in words]
        return _table(compile_features([found], self.number))


def _table(features: CompiledFeatures) -> csr_array:
    entries, starts = features.attributes.numpy(), np.append(0, features.ends.numpy())
    shape = (features.tokens, len(features.names))
    return csr_array((np.ones(len(entries)), entries, starts), shape=shape)
