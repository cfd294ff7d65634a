"""Potentials of translation-invariant fields on a ring: of words, and of words with their tags.

    words: score(x)    = sum_i [ unary(x_i) + sum_l pair_l(x_i, x_{i+l}) ]
    tags:  score(t, w) = sum_i [ sum_l transition_l(t_i, t_{i+l}) + sum_m word_m(t_i, w_{i+m}) ]

[Jernite, Rush, Sontag 2015, sections 3 and 6]  The text is a ring; tag 0 and word 0 of a tagged
text are the separator.  Duals are a reparametrisation: they move scores between the copies of a
word or tag that a bound on log Z makes, and leave the field as it is.
Letters in shapes: k: offsets; c: words of a vocabulary; d: dimensions; t: tags; w: words beside
tags; m: places of words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class WordPotentials(NamedTuple):
    """Scores of single words, and of pairs as products `left[k] @ right[k].T` of vectors.

    `left` or `right` has one entry where all offsets share it.  `triples`, for small vocabularies,
    scores three words in a row.
    """

    unary: Float[Tensor, " c"]
    left: Float[Tensor, "#k c d"]
    right: Float[Tensor, "#k c d"]
    triples: Float[Tensor, "c c c"] | None = None
    duals: Float[Tensor, "k c"] | None = None

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K, for a text: how many neighbours on each side a word is bound to."""
        return max(len(self.left), len(self.right))

    def double(self) -> WordPotentials:
        """The same scores in double precision."""
        return WordPotentials._make(None if own is None else own.double() for own in self)

    def tables(self) -> Float[Tensor, "k c c"]:
        """All pair scores at once, rows for the left word; for small vocabularies."""
        return (self.left @ self.right.mT).expand(self.offsets, -1, -1)

    def factors(self) -> tuple[Float[Tensor, "k c d"], Float[Tensor, "k c d"]]:
        """Left and right vectors of every offset."""
        spread = self.offsets, -1, -1
        return self.left.expand(spread), self.right.expand(spread)

    def position_scores(self, lines: Int[Tensor, "*b n"]) -> Float[Tensor, "*b n-k"]:
        """The score of each position of lines after the first K, with the pairs that it ends."""
        before = lines.unfold(-1, self.offsets + 1, 1)  # the words before each, and the word itself
        own = before[..., -1]
        total = self.unary[own]
        for k, (left, right) in enumerate(zip(*self.factors(), strict=True), start=1):
            total = total + (left[before[..., -1 - k]] * right[own]).sum(-1)
        if self.triples is not None:
            total = total + self.triples[before[..., -3], before[..., -2], own]
        return total

    def conditional(
        self, before: Int[Tensor, "n k"], after: Int[Tensor, "n k"]
    ) -> Float[Tensor, "n c"]:
        """Scores of every word in a gap; `before[:, l]` and `after[:, l]` are l + 1 words away.

        Up to a constant per row, log p(word | all others) [Jernite, Rush, Sontag 2015, section 3]:
        nothing further away matters.
        """
        scores = self.unary.expand(len(before), -1)
        for k, (left, right) in enumerate(zip(*self.factors(), strict=True)):
            scores = torch.addmm(scores, left[before[:, k]], right.T)
            scores = torch.addmm(scores, right[after[:, k]], left.T)
        if self.triples is None:
            return scores
        # The word as the last, the middle and the first of three.
        last = self.triples[before[:, 1], before[:, 0]]
        middle = self.triples[before[:, 0], :, after[:, 0]]
        first = self.triples.permute(1, 2, 0)[after[:, 0], after[:, 1]]
        return scores + (last + middle + first)


CENTRE, LEFT, RIGHT = 0, -1, 1
PLACES = {1: (CENTRE,), 3: (CENTRE, LEFT, RIGHT)}  # by the number of words a tag sees
SEPARATOR = 0


class TagPotentials(NamedTuple):
    """Scores of tag pairs by distance, and of (word, tag) pairs by the word's place."""

    transitions: Float[Tensor, "k t t"]
    words: dict[int, Float[Tensor, "w t"]]
    tag_duals: Float[Tensor, "f t"] | None = None
    word_duals: Float[Tensor, "g w"] | None = None

    @property
    def tags(self) -> int:
        """T: how many tags there are, the separator counted in."""
        return self.transitions.shape[-1]

    @property
    def vocabulary(self) -> int:
        """C: how many words there are, the separator counted in."""
        return len(self.words[CENTRE])

    def double(self) -> TagPotentials:
        """The same scores in double precision."""
        words = {place: scores.double() for place, scores in self.words.items()}
        duals = (None if own is None else own.double() for own in self[2:])
        return TagPotentials(self.transitions.double(), words, *duals)


def impossible(vocabulary: int, tags: int, device: torch.device) -> Bool[Tensor, "w t"]:
    """Where a word cannot have a tag: the separator has its own, and no word has that one."""
    word = torch.arange(vocabulary, device=device) == SEPARATOR
    tag = torch.arange(tags, device=device) == SEPARATOR
    return word.unsqueeze(1) != tag
