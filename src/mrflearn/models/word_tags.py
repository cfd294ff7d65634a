"""The tags that each word may have, with log P(word | tag).

Letters in shapes: w: words; k: (word, tag) entries; t: tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array


@final
@dataclass(frozen=True, eq=False)
class WordTags:
    """Word i has the entries from `begin[i]` to `begin[i + 1]`."""

    begin: Int[np.ndarray, "w+1"]
    tag: Int[np.ndarray, "k"]
    score: Float[np.ndarray, "k"]

    @classmethod
    def of(cls, share: csr_array, prior: Float[np.ndarray, "t"]) -> WordTags:
        """P(word | tag) = P(tag | word) P(word) / P(tag), by shares P(tag | word) P(word)."""
        tag = share.indices.astype(np.int64)
        return cls(share.indptr.astype(np.int64), tag, np.log(share.data / prior[tag]))

    def __add__(self, other: WordTags) -> WordTags:
        """These words, and others after them."""
        return WordTags(
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.tag, other.tag]),
            np.concatenate([self.score, other.score]),
        )
