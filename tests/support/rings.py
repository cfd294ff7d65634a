"""Tiny translation-invariant fields, and what enumerating a whole ring says of them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch import Tensor

from mrflearn.models.lifted import NeighbourModel


def random_model(offsets: int, states: int, seed: int, size: float = 1.0) -> NeighbourModel:
    """A model with free tables drawn from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    unary = torch.randn(states, generator=generator, dtype=torch.float64)
    table = torch.randn(offsets, states, states, generator=generator, dtype=torch.float64)
    return NeighbourModel(size * unary, {"table": size * table})


def with_triples(model: NeighbourModel, seed: int, size: float = 1.0) -> NeighbourModel:
    """The same model with scores of three in a row from a normal distribution."""
    generator = torch.Generator().manual_seed(seed + 500)
    shape = (model.states,) * 3
    table = torch.randn(shape, generator=generator, dtype=torch.float64)
    return replace(model, triples=size * table)


def random_duals(model: NeighbourModel, seed: int, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1000)
    shape = model.offsets, model.states
    return size * torch.randn(shape, generator=generator, dtype=torch.float64)


def all_rings(states: int, positions: int) -> Tensor:
    """Every assignment of a ring, one a row."""
    return torch.tensor(list(itertools.product(range(states), repeat=positions)))


def ring_scores(model: NeighbourModel, rings: Tensor) -> Tensor:
    """The score of each ring, term by term from the definition."""
    tables = model.potentials().tables()
    score = model.unary[rings].sum(1)
    for offset in range(1, model.offsets + 1):
        score = score + tables[offset - 1][rings, rings.roll(-offset, 1)].sum(1)
    if model.triples is not None:
        score = score + model.triples[rings, rings.roll(-1, 1), rings.roll(-2, 1)].sum(1)
    return score


def ring_log_partition(model: NeighbourModel, positions: int) -> float:
    return float(ring_scores(model, all_rings(model.states, positions)).logsumexp(0))
