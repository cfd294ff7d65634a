"""Ising parameters as potentials on a pairwise graph, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.pairwise import named_group
from mrflearn.graph.potentials import DenseTable, Potentials

SPINS = (-1.0, 1.0)  # state 0 is the spin -1


@dataclass(frozen=True, eq=False)
class IsingParameters:
    """Score = constant + sum_i fields[i] s_i + sum_e couplings[e] s_i s_j, with s = -1 or +1."""

    fields: Float[Tensor, "v"]
    couplings: Float[Tensor, "e"]
    constant: Float[Tensor, ""]


def ising(
    graph: FactorGraph, fields: Float[Tensor, "t"], couplings: Float[Tensor, "u"]
) -> Potentials:
    """Potentials of spins -1 (state 0) and +1 (state 1): one field a table, one coupling a table.

    On an untied graph that is one field a variable and one coupling an edge.
    """
    h, J = torch.as_tensor(fields), torch.as_tensor(couplings)
    spins = torch.tensor(SPINS, dtype=h.dtype, device=h.device)
    both = torch.outer(spins, spins).to(J.dtype)
    return _laid_on(graph, h[:, None] * spins, J[:, None, None] * both)


def random_ising(graph: FactorGraph, scale: float = 1.0, seed: int = 0) -> Potentials:
    """Fields uniform in (-1, 1), couplings uniform in (-scale, scale), in float64, from a seed."""
    unary, pair = (graph.groups[named_group(graph, name)] for name in ("unary", "pairwise"))
    draw = np.random.default_rng(seed)
    fields = torch.from_numpy(draw.uniform(-1, 1, _tables(unary.table)))
    couplings = torch.from_numpy(scale * draw.uniform(-1, 1, _tables(pair.table)))
    return ising(graph, fields, couplings)


def ising_parameters(potentials: Potentials) -> IsingParameters:
    """The only spin parameters that give every assignment of a binary pairwise field its score."""
    graph = potentials.graph
    if graph.variables and bool((graph.states != 2).any()):
        raise GraphError("spins have two states; some variables here have other numbers of states.")
    unary, pair = _scores(potentials)
    a, b = graph.groups[named_group(graph, "pairwise")].scope.unbind(dim=1)
    own = graph.groups[named_group(graph, "unary")].scope[:, 0]
    fields = unary.new_zeros(graph.variables).index_add(0, own, (unary[:, 1] - unary[:, 0]) / 2)
    fields = fields.index_add(0, a, (pair[:, 1] - pair[:, 0]).sum(dim=1) / 4)
    fields = fields.index_add(0, b, (pair[:, :, 1] - pair[:, :, 0]).sum(dim=1) / 4)
    couplings = (pair[:, 0, 0] + pair[:, 1, 1] - pair[:, 0, 1] - pair[:, 1, 0]) / 4
    constant = unary.sum() / 2 + pair.sum() / 4
    return IsingParameters(fields, couplings, constant)


def _scores(potentials: Potentials) -> tuple[Tensor, Tensor]:
    unary = potentials.factor_scores(named_group(potentials.graph, "unary"))
    return unary, potentials.factor_scores(named_group(potentials.graph, "pairwise"))


def _laid_on(graph: FactorGraph, unary: Tensor, pair: Tensor) -> Potentials:
    tables = {"unary": DenseTable(unary), "pairwise": DenseTable(pair)}
    for name in tables:
        named_group(graph, name)
    if len(graph.groups) != 2:
        extra = [group.name for group in graph.groups if group.name not in tables]
        raise GraphError(f"groups {extra}: Ising fields have unary and pairwise ones.")
    return Potentials(graph, tuple(tables[group.name] for group in graph.groups))


def _tables(table: Tensor) -> int:
    return int(table.max()) + 1 if len(table) else 0
