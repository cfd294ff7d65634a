"""Chains and what grows out of them: batches, factorial chains, skip chains.

Groups are untied unless `tied`: then all factors of a group read its table 0, as in a CRF without
observations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.pairwise import States, pairwise, state_counts


def chain(length: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """One sequence; groups "unary" and "pairwise" (position t to t + 1)."""
    return chains([length], states, tied=tied)


def chains(
    lengths: Sequence[int] | Int[Tensor, "c"], states: States = 2, *, tied: bool = False
) -> FactorGraph:
    """A batch of sequences laid end to end, one component each; groups as in `chain`."""
    counts = torch.as_tensor(lengths, dtype=torch.int64).cpu()
    component = _owners(counts)
    within = (component[1:] == component[:-1]).nonzero().squeeze(1)
    return pairwise(
        state_counts(states, len(component)),
        torch.stack([within, within + 1], dim=1),
        tied=tied,
        component=component,
        components=len(counts),
    )


def factorial_chain(
    length: int,
    states_per_layer: Sequence[int],
    *,
    coupled: Sequence[tuple[int, int]] | None = None,
    tied: bool = False,
) -> FactorGraph:
    """Several chains side by side, joined where they stand at the same position.

    Variable (t, layer) has the number t * layers + layer.  For each layer i there are groups
    "unary i" and "pairwise i", for each coupled pair "cotemporal i,j"; adjacent layers are
    coupled unless pairs are chosen.
    """
    layers = len(states_per_layer)
    pairs = [(i, i + 1) for i in range(layers - 1)] if coupled is None else list(coupled)
    _check_layers(length, layers, pairs)
    number = torch.arange(length * layers).reshape(length, layers)
    make = FactorGroup.tied if tied else FactorGroup
    steps = torch.stack([number[:-1], number[1:]], dim=-1)
    groups = [make(f"unary {i}", number[:, i : i + 1]) for i in range(layers)]
    groups += [make(f"pairwise {i}", steps[:, i]) for i in range(layers)]
    groups += [make(f"cotemporal {i},{j}", number[:, [i, j]]) for i, j in pairs]
    states = torch.as_tensor(states_per_layer, dtype=torch.int64).repeat(length)
    return FactorGraph(states, tuple(groups))


def skip_chain(
    length: int,
    states: States,
    skips: Sequence[tuple[int, int]] | Int[Tensor, "k 2"],
    *,
    tied: bool = False,
) -> FactorGraph:
    """A chain with further edges between the given pairs of positions, in a group "skip"."""
    base = chain(length, states, tied=tied)
    scope = torch.as_tensor(skips, dtype=torch.int64).reshape(-1, 2)
    make = FactorGroup.tied if tied else FactorGroup
    return FactorGraph(base.states, (*base.groups, make("skip", scope)))


def _owners(lengths: Int[Tensor, "c"]) -> Int[Tensor, "v"]:
    if lengths.ndim != 1 or (len(lengths) and int(lengths.min()) < 0):
        raise GraphError(f"lengths must be a list of numbers from 0 on, not {lengths.tolist()}.")
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


def _check_layers(length: int, layers: int, pairs: list[tuple[int, int]]) -> None:
    if length < 1 or layers < 1:
        raise GraphError(f"{layers} layers of length {length}: each must be at least 1.")
    for i, j in pairs:
        if i == j or not (0 <= i < layers and 0 <= j < layers):
            raise GraphError(
                f"layers {i} and {j} cannot be coupled: name two of the {layers} layers "
                f"(0 to {layers - 1})."
            )
