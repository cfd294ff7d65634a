"""Minus the log-pseudolikelihood: each variable given all others (Besag 1975).

[Sutton and McCallum 2009, eq. 5]  No log Z is needed: only the states of one variable are summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.features.observations import Samples
from mrflearn.graph.potentials import Potentials
from mrflearn.objectives.likelihood import FieldModel


def conditional_scores(
    potentials: Potentials, states: Int[Tensor, "n v"]
) -> Float[Tensor, "n v s"]:
    """Scores of each state of each variable, the others as observed; -inf beyond its states."""
    graph = potentials.graph
    legal = graph.legal()
    scores = torch.zeros(
        len(states), *legal.shape, dtype=potentials.dtype, device=states.device
    ).masked_fill(~legal, -torch.inf)
    for index, group in enumerate(graph.groups):
        if not len(group):
            continue
        table = potentials.factor_scores(index)
        rows = torch.arange(len(group), device=states.device)
        seen = states[:, group.scope].unbind(dim=-1)  # a tensors (n, f)
        for axis in range(group.arity):
            others = seen[:axis] + seen[axis + 1 :]
            slices = table.movedim(axis + 1, -1)[(rows, *others)]  # (n, f, s), or (f, s) alone
            slices = slices.expand(len(states), -1, -1)
            missing = scores.shape[-1] - slices.shape[-1]
            slices = torch.nn.functional.pad(slices, (0, missing))
            scores = scores.index_add(1, group.scope[:, axis], slices)
    return scores


def log_conditionals(potentials: Potentials, states: Int[Tensor, "n v"]) -> Float[Tensor, "n"]:
    """The sum over variables of log p(variable | all others), for each row."""
    scores = conditional_scores(potentials, states)
    chosen = scores.gather(-1, states.unsqueeze(-1)).squeeze(-1)
    return (chosen - scores.logsumexp(dim=-1)).sum(dim=-1)


@dataclass(frozen=True)
class Pseudolikelihood:
    """-sum over samples and variables of log p(variable | all others)."""

    def __call__(self, model: FieldModel, batch: Samples) -> Tensor:
        """Nats, summed over the weights of the batch."""
        values = log_conditionals(model.potentials(), batch.states)
        return -(batch.weights.to(values.dtype) * values).sum()
