"""Grammars written as text, one family of rules a line; `english.pcfg` explains the notation."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator

from mrflearn.datasets.grammar import Grammar, Rule
from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_lines

_LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z$])")
_LET = re.compile(r"let\s+([A-Z])\s*=\s*(\S.*)$")
_RULE = re.compile(r"(\S+)\s+(\S+)\s+->\s+(\S.*)$")

MOST_RULES = 100_000  # that one line may stand for
Sides = tuple[str, tuple[str, ...]]


def read_grammar(path: PathLike) -> Grammar:
    """The grammar of a text file, whose first rule's left side is the start symbol.

    Families of rules are spelt out, rules out of reach of the start symbol are dropped, and
    weights are divided by the sum over the rules of one left side.
    """
    weights: dict[Sides, float] = {}
    letters: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if let := _LET.match(text):
            letters[let[1]] = let[2].split()
        elif rule := _RULE.match(text):
            weight = _weight(rule[1], path, number)
            try:
                spelt_out = list(_spelt_out([rule[2], *rule[3].split()], letters))
            except DataError as error:
                raise DataError(error.problem, path=path, line=number) from None
            for left, *right in spelt_out:
                sides = (left, tuple(right))
                weights[sides] = weights.get(sides, 0.0) + weight
        elif text:
            raise DataError(
                f"'{text}' is neither 'let X = a b c' nor 'weight LEFT -> RIGHT ...'.",
                path=path,
                line=number,
            )
    if not weights:
        raise DataError("there is no rule in this file.", path=path)
    return _normalised(weights)


def literal(symbol: str) -> tuple[str, str] | None:
    """Tag and word of a symbol such as `IN:of`, or None."""
    tag, colon, word = symbol.rpartition(":")
    return (tag, word) if colon and tag and word else None


def label(symbol: str) -> str:
    """What a tree shows for a symbol: `NP` for `NP[def,per]`."""
    return symbol.partition("[")[0]


def _weight(text: str, path: PathLike, number: int) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise DataError(
            f"'{text}' should be the rule's weight, a number above 0.", path=path, line=number
        )
    return weight


def _spelt_out(symbols: list[str], letters: dict[str, list[str]]) -> Iterator[list[str]]:
    """The rule once for each choice of values for the letters in it."""
    # A literal has no letters to fill in: NNP:I is the word "I".
    patterns = [symbol for symbol in symbols if literal(symbol) is None]
    found = (letter for pattern in patterns for letter in _LETTER.findall(pattern))
    used = [letter for letter in dict.fromkeys(found) if letter in letters]
    if math.prod(len(letters[letter]) for letter in used) > MOST_RULES:
        raise DataError(f"one line stands for more than {MOST_RULES:,} rules.")
    for values in itertools.product(*(letters[letter] for letter in used)):
        choice = dict(zip(used, values, strict=True))
        yield [_filled(symbol, choice) for symbol in symbols]


def _filled(symbol: str, choice: dict[str, str]) -> str:
    if literal(symbol) is not None:
        return symbol
    return _LETTER.sub(lambda letter: choice.get(letter[0], letter[0]), symbol)


def _normalised(weights: dict[Sides, float]) -> Grammar:
    start = next(iter(weights))[0]
    reached = _reachable(start, weights)
    totals: dict[str, float] = {}
    for (left, _), weight in weights.items():
        totals[left] = totals.get(left, 0.0) + weight
    rules = (
        Rule(left, right, weight / totals[left])
        for (left, right), weight in weights.items()
        if left in reached
    )
    return Grammar(start, tuple(rules))


def _reachable(start: str, sides: Iterable[Sides]) -> set[str]:
    following: dict[str, set[str]] = {}
    for left, right in sides:
        following.setdefault(left, set()).update(right)
    reached, waiting = {start}, [start]
    while waiting:
        fresh = following.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached
