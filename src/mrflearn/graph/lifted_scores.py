"""Scores of words, tags and their neighbours on a ring.

    score(t, w) = sum_i [ sum_l transition_l(t_i, t_{i+l}) + sum_m word_m(t_i, w_{i+m}) ]

[Jernite, Rush, Sontag 2015, section 6]  The text is a ring; tag 0 and word 0 are the separator.
Letters in shapes: k: distances of tags; t: tags; w: words; m: places of words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# The numbers on a translation-invariant field: scores of words, and of pairs at each offset.


class NeighbourScores(NamedTuple):
    """Scores of single words, and of pairs as products `left[k] @ right[k].T` of vectors.

    `left` or `right` has one entry where all offsets share it.  `triples`, for small vocabularies,
    scores three words in a row.
    """

    unary: Float[Tensor, " c"]
    left: Float[Tensor, "#k c d"]
    right: Float[Tensor, "#k c d"]
    triples: Float[Tensor, "c c c"] | None = None

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K, for a text: how many neighbours on each side a word is bound to."""
        return max(len(self.left), len(self.right))

    @property
    def pairwise(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of words and pairs, for bounds that read no others."""
        return self.unary, self.left, self.right

    def double(self) -> NeighbourScores:
        """The same scores in double precision."""
        unary, left, right = (part.double() for part in self.pairwise)
        triples = None if self.triples is None else self.triples.double()
        return NeighbourScores(unary, left, right, triples)

    def tables(self) -> Float[Tensor, "k c c"]:
        """All pair scores at once, rows for the left word; for small vocabularies."""
        return (self.left @ self.right.mT).expand(self.offsets, -1, -1)

    def conditional(
        self, before: Int[Tensor, "n k"], after: Int[Tensor, "n k"]
    ) -> Float[Tensor, "n c"]:
        """Scores of every word in a gap; `before[:, l]` and `after[:, l]` are l + 1 words away.

        Up to a constant a row, log p(word | all others) [Jernite, Rush, Sontag 2015, section 3]:
        nothing further away matters.
        """
        spread = self.offsets, -1, -1
        lefts, rights = self.left.expand(spread), self.right.expand(spread)
        scores = self.unary.expand(len(before), -1)
        for k in range(self.offsets):
            scores = torch.addmm(scores, lefts[k][before[:, k]], rights[k].T)
            scores = torch.addmm(scores, rights[k][after[:, k]], lefts[k].T)
        if self.triples is None:
            return scores
        return scores + _three_in_a_row(self.triples, before, after)


def _three_in_a_row(
    triples: Float[Tensor, "c c c"], before: Int[Tensor, "n k"], after: Int[Tensor, "n k"]
) -> Float[Tensor, "n c"]:
    """The scores of every word as the last, the middle and the first of three."""
    last = triples[before[:, 1], before[:, 0]]
    middle = triples[before[:, 0], :, after[:, 0]]
    first = triples.permute(1, 2, 0)[after[:, 0], after[:, 1]]
    return last + middle + first


# The numbers on the field of a tagged text: scores of near tags, and of words near tags.


CENTRE, LEFT, RIGHT = 0, -1, 1
PLACES = {1: (CENTRE,), 3: (CENTRE, LEFT, RIGHT)}  # by the number of words a tag sees
SEPARATOR = 0


class TagScores(NamedTuple):
    """Scores of tag pairs by distance, and of (word, tag) pairs by the word's place."""

    transitions: Float[Tensor, "k t t"]
    words: dict[int, Float[Tensor, "w t"]]

    @property
    def tags(self) -> int:
        """T: how many tags there are, the separator counted in."""
        return self.transitions.shape[-1]

    @property
    def vocabulary(self) -> int:
        """C: how many words there are, the separator counted in."""
        return len(self.words[CENTRE])

    def double(self) -> TagScores:
        """The same scores in double precision."""
        words = {place: scores.double() for place, scores in self.words.items()}
        return TagScores(self.transitions.double(), words)


def impossible(vocabulary: int, tags: int, device: torch.device) -> Bool[Tensor, "w t"]:
    """Where a word cannot have a tag: the separator has its own, and no word has that one."""
    word = torch.arange(vocabulary, device=device) == SEPARATOR
    tag = torch.arange(tags, device=device) == SEPARATOR
    return word.unsqueeze(1) != tag
