"""Slow, obvious twins that the tests compare with: every assignment, one at a time."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from mrflearn.graph.potentials import Potentials


def all_assignments(potentials: Potentials) -> Tensor:
    """Every assignment of a field, one a row, the last variable changing fastest."""
    states = (range(n) for n in potentials.graph.states.tolist())
    return torch.tensor(list(itertools.product(*states)), dtype=torch.int64)


def all_probabilities(potentials: Potentials) -> Tensor:
    """The probability of every assignment (one component)."""
    scores = potentials.score(all_assignments(potentials)).squeeze(-1)
    return (scores - scores.logsumexp(0)).exp()
