"""Random derivations of a grammar, drawn without recursion."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from mrflearn.datasets.grammar import Grammar

_BLOCK = 1024


class Step(NamedTuple):
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


def derivation_sampler(grammar: Grammar) -> Callable[[Iterator[float]], list[Step]]:
    """A function that draws one derivation: its symbols, parents first, left before right."""
    choices = {
        left: (
            cumulative([rule.probability for rule in rules]),
            [rule.right[::-1] for rule in rules],
            [Step(left, len(rule.right), math.log(rule.probability)) for rule in rules],
        )
        for left, rules in grammar.rules_of.items()
    }
    leaves = {symbol: Step(symbol, 0, 0.0) for symbol in grammar.terminals}

    def draw(numbers: Iterator[float]) -> list[Step]:
        steps: list[Step] = []
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
