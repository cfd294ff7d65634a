"""Minus the log-pseudolikelihood of a text: each word given its neighbours on both sides.

[Jernite, Rush, Sontag 2015, section 3; Besag 1975]
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.graph.lifted import WordPotentials
from mrflearn.io.corpus import LINE_END_ID
from mrflearn.models.lifted import NeighbourModel


class Gaps(NamedTuple):
    """Words with their neighbours before and after, nearest first."""

    before: Int[Tensor, "n k"]
    word: Int[Tensor, " n"]
    after: Int[Tensor, "n k"]

    @classmethod
    def of(cls, ids: NDArray[np.int32], separator: int, offsets: int) -> Gaps:
        """Every word of a text, given as ids with `LINE_END_ID` after each sentence."""
        ends = ids == LINE_END_ID
        line = np.repeat(np.where(ends, separator, ids), np.where(ends, offsets, 1))
        edge = np.full(offsets, separator, line.dtype)
        line = np.concatenate([edge, line, edge]).astype(np.int64)
        at = np.flatnonzero(line != separator)
        steps = np.arange(1, offsets + 1)
        parts = line[at[:, None] - steps], line[at], line[at[:, None] + steps]
        return cls(*(torch.from_numpy(part) for part in parts))

    def to(self, device: torch.device) -> Gaps:
        return Gaps(*(part.to(device) for part in self))

    def split(self, size: int) -> list[Gaps]:
        """Pieces of at most so many words."""
        return [Gaps(*parts) for parts in zip(*(part.split(size) for part in self), strict=True)]


def log_conditionals(scores: WordPotentials, gaps: Gaps, separator: int) -> Float[Tensor, " n"]:
    """log p(word | all others); a word is never a separator, whose places are given."""
    figures = scores.conditional(gaps.before, gaps.after)
    banned = torch.zeros(scores.states, dtype=torch.bool, device=figures.device)
    banned[separator] = True
    figures = figures.masked_fill(banned, -torch.inf)
    return figures.gather(1, gaps.word.unsqueeze(1)).squeeze(1) - figures.logsumexp(1)


@final
class NeighbourPseudolikelihood:
    """-sum over words of log p(word | all others)."""

    def __init__(self, separator: int) -> None:
        self.separator = separator

    def __call__(self, model: NeighbourModel, batch: Gaps) -> Float[Tensor, ""]:
        """Nats, summed over the words of the batch."""
        return -log_conditionals(model.potentials(), batch, self.separator).sum()
