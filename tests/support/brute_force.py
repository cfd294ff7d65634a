"""Slow, obvious twins that the tests compare with: every assignment, one at a time."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs


def all_assignments(potentials: Potentials) -> Tensor:
    """Every assignment of a field, one a row, the last variable changing fastest."""
    states = (range(n) for n in potentials.graph.states.tolist())
    return torch.tensor(list(itertools.product(*states)), dtype=torch.int64)


def all_probabilities(potentials: Potentials) -> Tensor:
    """The probability of every assignment (one component)."""
    scores = potentials.score(all_assignments(potentials)).squeeze(-1)
    return (scores - scores.logsumexp(0)).exp()


def belief_entropy(potentials: Potentials, beliefs: Beliefs) -> Tensor:
    """log Z minus the expected score, a component: the entropy where the beliefs are exact."""
    graph, total = potentials.graph, beliefs.log_partition.detach().clone()
    for index, (group, belief) in enumerate(zip(graph.groups, beliefs.factors, strict=True)):
        # A score of -inf has belief 0 and adds nothing.
        scores = potentials.factor_scores(index)
        expected = torch.where(belief > 0, belief * scores, 0.0).flatten(1).sum(dim=1)
        total.index_add_(0, graph.component_of(group), -expected)
    return total
