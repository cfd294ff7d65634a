"""Minus the exact log-likelihood of a ring per position, for small vocabularies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from mrflearn.inference.transfer import ring_log_partition
from mrflearn.models.neighbour_lm import NeighbourModel
from mrflearn.objectives.lifted_bound import Frequencies


@final
@dataclass(frozen=True)
class RingLikelihood:
    """log Z / N by the transfer operator, minus the mean score.

    Per position, like the lifted bounds it is compared with.
    """

    positions: int

    def __call__(self, model: NeighbourModel, batch: Frequencies) -> Float[Tensor, ""]:
        scores = model.scores()
        log_partition = ring_log_partition(
            scores.unary, scores.tables(), self.positions, scores.triples
        )
        return log_partition / self.positions - batch.mean_score(scores)
