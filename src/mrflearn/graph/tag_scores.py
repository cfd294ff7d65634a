"""The numbers on the field of a tagged text: scores of near tags, and of words near tags.

    score(t, w) = sum_i [ sum_l transition_l(t_i, t_{i+l}) + sum_m word_m(t_i, w_{i+m}) ]

[Jernite, Rush, Sontag 2015, section 6]  The text is a ring; tag 0 and word 0 are the separator.
Letters in shapes: k: distances of tags; t: tags; w: words; m: places of words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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
