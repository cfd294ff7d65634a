"""What the ending of a word says of its tag, learned from rare words [Brants 2000, section 2.3].

Letters in shapes: t: tags; k: words asked about; n: endings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csr_array

# How many words seen with an ending weigh as much as all that shorter endings say; chosen on
# validation sentences, see docs/decisions/hmm-tagger.md.
STRENGTH = 6.0
_DIGIT = re.compile(r"\d")


@final
@dataclass(frozen=True, eq=False)
class SuffixTree:
    """How many rare words with each ending had each tag."""

    number: dict[str, int]
    counts: csr_array  # n t
    longest: int

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
            # [Brants 2000, eq. 7] with theta = STRENGTH / count: the more words, the more trust.
            strength = STRENGTH if level else 0.0
            total = counts.sum(axis=1, keepdims=True) + strength
            result[rows] = (counts + strength * result[rows]) / total
        return result


def suffix_tree(words: Sequence[str], seen: csr_array, longest: int) -> SuffixTree:
    """The tree of words and the tags they were seen with; how often does not count."""
    number: dict[str, int] = {}
    ladders = [endings(word, longest) for word in words]
    rows = [number.setdefault(ending, len(number)) for ladder in ladders for ending in ladder]
    word = np.repeat(np.arange(len(words)), [len(ladder) for ladder in ladders])
    has = coo_array((np.ones(len(rows)), (rows, word)), shape=(len(number), len(words)))
    return SuffixTree(number, csr_array(has.tocsr() @ (seen > 0).astype(np.float64)), longest)


def endings(word: str, longest: int) -> list[str]:
    """The endings of a word from the empty one on, digits all alike.

    Words of different shapes have trees of their own, which meet in the empty ending.
    """
    form = _DIGIT.sub("0", word)
    kind = shape(word)
    return ["", *(kind + form[len(form) - n :] for n in range(min(longest, len(form)) + 1))]


def shape(word: str) -> str:
    """One letter: has digits (0), all capitals (X), a capital (A), a hyphen (-), others (a)."""
    if _DIGIT.search(word):
        return "0"
    if word[:1].isupper():
        return "X" if len(word) > 1 and word.isupper() else "A"
    return "-" if "-" in word else "a"
