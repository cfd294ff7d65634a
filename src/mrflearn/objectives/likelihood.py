"""Minus the log-likelihood, by whatever inference gives log Z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mrflearn.features.observations import CliqueCounts
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Inference


class FieldModel(Protocol):
    """A model whose potentials do not depend on the batch."""

    def potentials(self) -> Potentials: ...


@dataclass(frozen=True)
class Likelihood:
    """-log p of everything counted: exact, a bound or an approximation, as the inference is."""

    inference: Inference

    def __call__(self, model: FieldModel, batch: CliqueCounts) -> Tensor:
        """Nats, summed over the weights of the batch."""
        potentials = model.potentials()
        log_partition = self.inference(potentials).log_partition
        loss = (batch.weights.to(log_partition.dtype) * log_partition).sum()
        for index, counts in enumerate(batch.counts):
            scores = potentials.factor_scores(index)
            # An impossible state that was never seen adds 0 * -inf: nothing.
            seen = torch.where(counts > 0, counts.to(scores.dtype) * scores, 0.0)
            loss = loss - seen.sum()
        return loss
