"""Minus the log-pseudolikelihood of rows with missing values, as far as they were observed.

The term of a variable counts in the rows in which it and all its neighbours were observed
(available cases): unbiased where what is missing does not depend on the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.objectives.likelihood import FieldModel
from mrflearn.objectives.pseudolikelihood import conditional_scores


@dataclass(frozen=True, eq=False)
class AvailableCases:
    """Rows of states with their weights, and which variables' terms count in which row."""

    states: Int[Tensor, "n v"]  # any state where none was observed
    known: Bool[Tensor, "n v"]
    weights: Float[Tensor, "n"]

    def chunks(self, rows: int) -> list[AvailableCases]:
        """The same rows, at most so many at a time."""
        parts = zip(*(part.split(rows) for part in vars(self).values()), strict=True)
        return [AvailableCases(*part) for part in parts]


@dataclass(frozen=True)
class AvailablePseudolikelihood:
    """-sum over samples and variables of log p(variable | its neighbours), where all are known."""

    def __call__(self, model: FieldModel, batch: AvailableCases) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the batch."""
        scores = conditional_scores(model.potentials(), batch.states)
        chosen = scores.gather(-1, batch.states.unsqueeze(-1)).squeeze(-1)
        terms = (chosen - scores.logsumexp(dim=-1)) * batch.known
        return -(batch.weights.to(terms.dtype) @ terms).sum()


def available_terms(graph: FactorGraph, observed: Bool[Tensor, "n v"]) -> Bool[Tensor, "n v"]:
    """Whether each variable was observed together with all its neighbours."""
    unknown = (~observed).to(torch.float32)
    total = unknown.clone()
    for group in graph.groups:
        for axis in range(group.arity if len(group) else 0):
            around = unknown[:, group.scope].amax(dim=2)
            total.index_add_(1, group.scope[:, axis], around)
    return total == 0
