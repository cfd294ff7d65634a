"""All that the joint tagger reads of a tagged text: how often tags meet tags and words.

The text is one ring [Jernite, Rush, Sontag 2015, section 4.1]: every sentence is preceded by K
separators, each with a tag of its own, so that counts of texts add up.  Counts need not be whole:
where tags are unknown, they are expectations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from mrflearn.features.tagged_sentences import UNKNOWN, TaggedSentences

SEPARATOR = 0  # the number of its word and of its tag
Numbers: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class JointMoments:
    """Counts of tag pairs at the distances 1, 2, ..., and of (word, tag) at each place of words."""

    transitions: Float[np.ndarray, "k t t"]
    words: dict[int, csr_array]

    @property
    def positions(self) -> float:
        """N: the weight of all positions, separators counted in."""
        return float(self.transitions[0].sum())

    @property
    def distances(self) -> int:
        """K: how far apart tags are counted."""
        return len(self.transitions)

    def __add__(self, other: JointMoments) -> JointMoments:
        words = {place: counts + other.words[place] for place, counts in self.words.items()}
        return JointMoments(self.transitions + other.transitions, words)

    def __mul__(self, weight: float) -> JointMoments:
        words = {place: counts * weight for place, counts in self.words.items()}
        return JointMoments(self.transitions * weight, words)

    def rounded_up(self, multiple: int) -> JointMoments:
        """The same ring with separators added until N is a multiple.

        Next to K separators one more adds one pair of separators at every distance and place.
        """
        more = -self.positions % multiple
        transitions = self.transitions.copy()
        transitions[:, SEPARATOR, SEPARATOR] += more
        words = {}
        for place, counts in self.words.items():
            corner = coo_array(([more], ([SEPARATOR], [SEPARATOR])), shape=counts.shape)
            words[place] = (counts + corner).tocsr()
        return replace(self, transitions=transitions, words=words)


def count_joint(
    sentences: TaggedSentences, shape: tuple[int, int], distances: int, places: Sequence[int]
) -> JointMoments:
    """The moments of sentences, `shape` being (words, tags); what has an unknown tag is left out.

    Separators are always known: of sentences without tags they alone are counted.
    """
    vocabulary, tags = shape
    word = with_separators(sentences.words, sentences.lengths, distances)
    tag = with_separators(sentences.tags, sentences.lengths, distances)
    transitions = [
        _pairs(tag, np.roll(tag, -step), (tags, tags)).toarray() for step in range(1, distances + 1)
    ]
    words = {
        place: _pairs(np.roll(word, -place), tag, (vocabulary, tags)).tocsr() for place in places
    }
    return JointMoments(np.stack(transitions), words)


def _pairs(first: Numbers, second: Numbers, shape: tuple[int, int]) -> coo_array:
    known = (first != UNKNOWN) & (second != UNKNOWN)
    return coo_array((np.ones(int(known.sum())), (first[known], second[known])), shape=shape)


def with_separators(
    values: Int[np.ndarray, " n"], lengths: Int[np.ndarray, " b"], count: int
) -> Numbers:
    """The values with `count` separators before each sentence."""
    starts = np.cumsum(lengths) - lengths
    return np.insert(values, np.repeat(starts, count), SEPARATOR)
