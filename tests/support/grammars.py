"""Small random grammars, and all their strings by enumeration."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import strategies as st

from mrflearn.datasets.grammar import Grammar, Rule

PHRASES = ("S", "A", "B")
WORDS = ("x", "y")


@st.composite
def random_grammars(draw: st.DrawFn) -> Grammar:
    """Grammars with right sides of one to four symbols, without cycles of unary rules."""
    rules = []
    for position, left in enumerate(PHRASES):
        later = PHRASES[position + 1 :] + WORDS
        unary = st.tuples(st.sampled_from(later))
        longer = st.lists(st.sampled_from(PHRASES + WORDS), min_size=2, max_size=4).map(tuple)
        rights = draw(st.lists(unary | longer, min_size=1, max_size=3, unique=True))
        rights = list(dict.fromkeys([("x",), *rights]))
        weights = [8, *(draw(st.integers(1, 4)) for _ in rights[1:])]
        rules += [Rule(left, r, w / sum(weights)) for r, w in zip(rights, weights, strict=True)]
    return Grammar("S", tuple(rules))


def enumerate_strings(grammar: Grammar, longest: int) -> dict[tuple[str, ...], tuple[float, int]]:
    """Probability and number of derivations of every string up to a length.

    Leftmost derivations are followed one rule at a time; every symbol yields at least one word,
    so that forms longer than the limit can be dropped.
    """
    found: defaultdict[tuple[str, ...], tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    waiting: list[tuple[tuple[str, ...], tuple[str, ...], float]] = [((), (grammar.start,), 1.0)]
    while waiting:
        words, rest, probability = waiting.pop()
        while rest and rest[0] not in grammar.rules_of:
            words, rest = (*words, rest[0]), rest[1:]
        if not rest:
            total, count = found[words]
            found[words] = (total + probability, count + 1)
            continue
        for rule in grammar.rules_of[rest[0]]:
            if len(words) + len(rest) - 1 + len(rule.right) <= longest:
                new = (*rule.right, *rest[1:])
                waiting.append((words, new, probability * rule.probability))
    return dict(found)


def spectral_radius(grammar: Grammar) -> float:
    """Below 1 if and only if derivations have a finite mean size."""
    place = {symbol: i for i, symbol in enumerate((*grammar.rules_of, *grammar.terminals))}
    means = np.zeros((len(place), len(place)))
    for rule in grammar.rules:
        for symbol in rule.right:
            means[place[rule.left], place[symbol]] += rule.probability
    return float(np.abs(np.linalg.eigvals(means)).max())
