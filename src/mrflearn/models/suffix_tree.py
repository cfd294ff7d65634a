"""What the ending of a word says of its tag, learned from rare words [Brants 2000, section 2.3].

Letters in shapes: t: tags; k: words asked about; e: counted (word, tag) pairs; n: endings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array

_DIGIT = re.compile(r"\d")


@final
@dataclass(frozen=True, eq=False)
class SuffixTree:
    """Counts of tags for every ending of rare words, and how much a longer ending is trusted."""

    number: dict[str, int]
    counts: csr_array  # n t
    longest: int
    theta: float

    def shares(self, words: Sequence[str]) -> Float[np.ndarray, "k t"]:
        """P(tag | ending) of each word, every ending smoothed by the next shorter one."""
        result = np.zeros((len(words), self.counts.shape[1]))
        ladders = [endings(word, self.longest) for word in words]
        for level in range(self.longest + 2):
            found = [
                (row, self.number[ladder[level]])
                for row, ladder in enumerate(ladders)
                if level < len(ladder) and ladder[level] in self.number
            ]
            if not found:
                break
            rows, numbers = np.array(found).T
            counts = self.counts[numbers].toarray()
            own = counts / counts.sum(axis=1, keepdims=True)
            # [Brants 2000, eq. 7]; above the empty ending there is nothing to smooth with.
            theta = self.theta if level else 0.0
            result[rows] = (own + theta * result[rows]) / (1 + theta)
        return result


def suffix_tree(
    words: Sequence[str],
    pairs: Int[np.ndarray, "e 3"],
    tags: int,
    *,
    longest: int,
    theta: float,
) -> SuffixTree:
    """The tree of (word, tag, times) counts; words are given by their place in `words`."""
    number: dict[str, int] = {}
    rows: list[int] = []
    widths: list[int] = []
    for word in pairs[:, 0].tolist():
        ladder = endings(words[word], longest)
        rows += [number.setdefault(ending, len(number)) for ending in ladder]
        widths.append(len(ladder))
    tag, times = (np.repeat(column, widths) for column in pairs[:, 1:].T)
    counts = coo_array((times.astype(np.float64), (rows, tag)), shape=(len(number), tags))
    return SuffixTree(number, counts.tocsr(), longest, theta)


def endings(word: str, longest: int) -> list[str]:
    """The endings of a word from the empty one on, digits all alike.

    Capitalised words and others have trees of their own, which meet in the empty ending.
    """
    form = _DIGIT.sub("0", word)
    case = "A" if word[:1].isupper() else "a"
    return ["", *(case + form[len(form) - n :] for n in range(min(longest, len(form)) + 1))]
