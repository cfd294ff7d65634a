"""How often three states stand in a row: counted where the vocabulary is small.

A table of scores for all triples has C^3 numbers, too many for more than a hundred words or so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

MOST_STATES = 128


@final
@dataclass(frozen=True, eq=False)
class TripleCounts:
    """Triples as rising codes `(first * states + second) * states + third`, with their counts."""

    codes: NDArray[np.int64]
    count: NDArray[np.int64]

    def plus(self, others: Sequence[TripleCounts]) -> TripleCounts:
        """The counts of all as one; counts of zero are dropped."""
        parts = [self, *others]
        codes, place = np.unique(np.concatenate([p.codes for p in parts]), return_inverse=True)
        count = np.zeros(len(codes), np.int64)
        np.add.at(count, place, np.concatenate([p.count for p in parts]))
        return TripleCounts(codes[count != 0], count[count != 0])

    def plus_repeats(self, state: int, states: int, times: int) -> TripleCounts:
        """The counts with so many more (or fewer) triples of one state alone."""
        code = np.array([state * (states * states + states + 1)])
        return self.plus([TripleCounts(code, np.array([times]))])
