"""The tags that each word may have, with log P(word | tag): counted, or guessed for new words.

Letters in shapes: w: words; k: (word, tag) entries; t: tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int


@final
@dataclass(frozen=True, eq=False)
class WordTags:
    """Word i has the entries from `begin[i]` to `begin[i + 1]`, by rising tag."""

    begin: Int[np.ndarray, "w+1"]
    tag: Int[np.ndarray, "k"]
    score: Float[np.ndarray, "k"]

    @classmethod
    def of(cls, scores: Float[np.ndarray, "w t"]) -> WordTags:
        """All entries of a table that are not -inf."""
        word, tag = np.nonzero(scores > -np.inf)
        counts = np.bincount(word, minlength=len(scores))
        return cls(np.concatenate([[0], np.cumsum(counts)]), tag, scores[word, tag])

    @classmethod
    def counted(cls, emission: Int[np.ndarray, "k 3"], words: int, tags: int) -> WordTags:
        """Shares of each tag's occurrences that are of a word."""
        word, tag, times = emission[np.lexsort((emission[:, 1], emission[:, 0]))].T
        total = np.bincount(tag, weights=times, minlength=tags)
        begin = np.concatenate([[0], np.cumsum(np.bincount(word, minlength=words))])
        return cls(begin, tag, np.log(times / total[tag]))

    def __add__(self, other: WordTags) -> WordTags:
        """These words, and others after them."""
        return WordTags(
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.tag, other.tag]),
            np.concatenate([self.score, other.score]),
        )
