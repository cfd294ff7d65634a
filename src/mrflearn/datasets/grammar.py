"""Weighted grammars as text, and sentences sampled from them.

Expected counts solve one linear system: with M[A, B] the mean number of Bs that one A is rewritten
to, the counts in a whole derivation are (I + M + M^2 + ...) of the start symbol's row, which exist
when the spectral radius of M is below 1.  Then every derivation ends (the grammar is consistent),
and the entropy of a derivation is the sum over symbols of count times entropy of the choice made
there [Grenander 1976; Chi 1999, "Statistical properties of probabilistic context-free grammars"].
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy.special import entr

# A probabilistic context-free grammar as a plain record, and what follows from it in closed
# form.


@dataclass(frozen=True, slots=True)
class Rule:
    """`left` is rewritten as `right`, at least one symbol, with this probability."""

    left: str
    right: tuple[str, ...]
    probability: float


@dataclass(frozen=True)
class Grammar:
    """A start symbol and rules; symbols that are never on the left are the terminals."""

    start: str
    rules: tuple[Rule, ...]

    @cached_property
    def rules_of(self) -> dict[str, tuple[Rule, ...]]:
        """The rules of each nonterminal, in the order of the grammar."""
        grouped: dict[str, list[Rule]] = {}
        for rule in self.rules:
            grouped.setdefault(rule.left, []).append(rule)
        return {left: tuple(rules) for left, rules in grouped.items()}

    @cached_property
    def terminals(self) -> tuple[str, ...]:
        """The terminals in the order in which the rules mention them."""
        mentioned = dict.fromkeys(symbol for rule in self.rules for symbol in rule.right)
        return tuple(symbol for symbol in mentioned if symbol not in self.rules_of)

    @cached_property
    def expected_counts(self) -> dict[str, float]:
        """How often each symbol, terminals too, occurs in a derivation on average."""
        place = {symbol: i for i, symbol in enumerate((*self.rules_of, *self.terminals))}
        start = np.eye(len(place))[place[self.start]]
        means = np.zeros((len(place), len(place)))  # M
        for rule in self.rules:
            for symbol in rule.right:
                means[place[rule.left], place[symbol]] += rule.probability
        counts = np.linalg.solve(np.eye(len(place)) - means.T, start)  # counts = start + counts M
        return dict(zip(place, counts.tolist(), strict=True))

    @cached_property
    def expected_length(self) -> float:
        """The mean number of terminals in a derivation."""
        return math.fsum(self.expected_counts[symbol] for symbol in self.terminals)

    def entropy(self, terminal_entropy: Mapping[str, float] | None = None) -> float:
        """The entropy of a derivation, in nats.

        `terminal_entropy` adds, for each terminal, the entropy of what is drawn there.
        """
        counts = self.expected_counts
        drawn = (terminal_entropy or {}).items()
        choices = math.fsum(counts[rule.left] * entr(rule.probability) for rule in self.rules)
        return choices + math.fsum(counts.get(symbol, 0) * entropy for symbol, entropy in drawn)


# Grammars written as text, one family of rules a line; `english.pcfg` explains the notation.


_LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z$])")


def read_grammar(text: str) -> Grammar:
    """The grammar of a text, whose first rule's left side is the start symbol.

    Families of rules are spelt out, rules out of reach of the start symbol are dropped, and
    weights are divided by the sum over the rules of one left side.
    """
    letters: dict[str, list[str]] = {}
    weights: dict[tuple[str, ...], float] = {}  # of the symbols of a rule, the left side first
    for line in text.splitlines():
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if words[:1] == ["let"]:
            letters[words[1]] = words[3:]
        elif words:
            weight, left, _, *right = words
            for symbols in _spelt_out([left, *right], letters):
                weights[symbols] = weights.get(symbols, 0.0) + float(weight)
    totals: dict[str, float] = {}
    following: dict[str, set[str]] = {}
    for (left, *right), own in weights.items():
        totals[left] = totals.get(left, 0.0) + own
        following.setdefault(left, set()).update(right)
    start = next(iter(totals))
    reached, waiting = {start}, [start]
    while waiting:
        fresh = following.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting.extend(fresh)
    rules = (
        Rule(left, tuple(right), own / totals[left])
        for (left, *right), own in weights.items()
        if left in reached
    )
    return Grammar(start, tuple(rules))


def literal(symbol: str) -> tuple[str, str] | None:
    """Tag and word of a symbol such as `IN:of`, or None."""
    tag, colon, word = symbol.rpartition(":")
    return (tag, word) if colon and tag and word else None


def label(symbol: str) -> str:
    """What a tree shows for a symbol: `NP` for `NP[def,per]`."""
    return symbol.partition("[")[0]


def _spelt_out(symbols: list[str], letters: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """The rule once for each choice of values for the letters in it."""
    # A literal has no letters to fill in: NNP:I is the word "I".
    patterns = [symbol for symbol in symbols if literal(symbol) is None]
    found = (letter for pattern in patterns for letter in _LETTER.findall(pattern))
    used = [letter for letter in dict.fromkeys(found) if letter in letters]
    for values in itertools.product(*(letters[letter] for letter in used)):
        choice = dict(zip(used, values, strict=True))
        yield tuple(
            _LETTER.sub(lambda letter: choice.get(letter[0], letter[0]), symbol)  # noqa: B023
            if literal(symbol) is None
            else symbol
            for symbol in symbols
        )


# Random derivations of a grammar, drawn without recursion.


_BLOCK = 1024


class DerivationStep(NamedTuple):
    """A symbol of a derivation, how many symbols it was rewritten to, and how likely that was.

    A terminal is rewritten to none, with certainty.
    """

    symbol: str
    children: int
    log_probability: float


def uniform_numbers(seed: int | tuple[int, ...]) -> Iterator[float]:
    """Numbers in [0, 1), the same for a seed on every machine.

    Only PCG64's doubles are used: numpy promises never to change them, unlike its distributions.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    while True:
        yield from generator.random(_BLOCK).tolist()


def cumulative(probabilities: list[float]) -> list[float]:
    """Upper ends of the choices, for `bisect_right`.

    The last choice that is possible at all has no end, so that rounding makes nothing fall off.
    """
    last = max(i for i, probability in enumerate(probabilities) if probability > 0)
    return [*accumulate(probabilities[:last]), math.inf]


def derivation_sampler(grammar: Grammar) -> Callable[[Iterator[float]], list[DerivationStep]]:
    """A function that draws one derivation: its symbols, parents first, left before right."""
    choices = {
        left: (
            cumulative([rule.probability for rule in rules]),
            [rule.right[::-1] for rule in rules],
            [DerivationStep(left, len(rule.right), math.log(rule.probability)) for rule in rules],
        )
        for left, rules in grammar.rules_of.items()
    }
    leaves = {symbol: DerivationStep(symbol, 0, 0.0) for symbol in grammar.terminals}

    def draw(numbers: Iterator[float]) -> list[DerivationStep]:
        steps: list[DerivationStep] = []
        stack = [grammar.start]
        while stack:
            symbol = stack.pop()
            if symbol in leaves:
                steps.append(leaves[symbol])
                continue
            ends, reversed_rights, outcomes = choices[symbol]
            chosen = bisect_right(ends, next(numbers)) if len(outcomes) > 1 else 0
            steps.append(outcomes[chosen])
            stack.extend(reversed_rights[chosen])
        return steps

    return draw
