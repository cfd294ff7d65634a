"""Which tokens of a document a skip chain joins: rules from words to pairs of positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations

from mrflearn.errors import DataError

Skips = list[tuple[int, int]]
SkipRule = Callable[[Sequence[str]], Sequence[tuple[int, int]]]


def same_capitalised_word(words: Sequence[str]) -> Skips:
    """All pairs of positions where the same capitalised word stands [Sutton 2009, eq. 41]."""
    return _joined(words, lambda word: word[:1].isupper())


def same_word(words: Sequence[str]) -> Skips:
    """All pairs of positions where the same word stands, if it has a letter or a digit."""
    return _joined(words, lambda word: any(sign.isalnum() for sign in word))


SKIP_RULES: dict[str, SkipRule] = {"capitalised": same_capitalised_word, "same-word": same_word}


def apply_rule(rule: SkipRule, words: Sequence[str]) -> Skips:
    """The pairs (u, v), u < v, that a rule gives, without neighbours, which the chain joins."""
    pairs = set()
    for u, v in rule(words):
        if not (0 <= u < len(words) and 0 <= v < len(words)) or u == v:
            raise DataError(
                f"the skip rule joins positions {u} and {v} of {len(words)} words. A rule gives "
                f"pairs of two different positions from 0 to {len(words) - 1}."
            )
        if abs(u - v) > 1:
            pairs.add((min(u, v), max(u, v)))
    return sorted(pairs)


def _joined(words: Sequence[str], wanted: Callable[[str], bool]) -> Skips:
    places: dict[str, list[int]] = defaultdict(list)
    for position, word in enumerate(words):
        if wanted(word):
            places[word].append(position)
    return [pair for found in places.values() for pair in combinations(found, 2)]
