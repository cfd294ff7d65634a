"""Observed variables: fields given that some variables are in known states, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials


def condition(potentials: Potentials, evidence: Mapping[int, int]) -> Potentials:
    """The field given states of some variables, which keep their numbers and that one state.

    So in its marginals an observed variable is surely in its only state, the first of the row;
    `expand_beliefs` writes them over all states that the variables had before.
    Its log Z is that of all assignments that agree with the evidence.  Factors over observed
    variables leave their group, one new group for each set of observed positions.
    """
    if not evidence:
        return potentials
    graph = potentials.graph
    state = _observed_states(graph, evidence)
    groups: list[FactorGroup] = []
    tables: list[DenseTable] = []
    for group, table in zip(graph.groups, potentials.tables, strict=True):
        observed = state[group.scope] >= 0
        patterns = observed.unique(dim=0) if len(group) else observed.new_zeros(1, group.arity)
        for positions in patterns:
            rows = (observed == positions).all(dim=1).nonzero().squeeze(1)
            part = FactorGroup(group.name, group.scope[rows], group.table[rows])
            part, own = _slice(part, table, state) if bool(positions.any()) else (part, table)
            groups.append(part)
            tables.append(own)
    left = torch.where(state >= 0, 1, graph.states)
    reduced = replace(graph, states=left, groups=tuple(groups))
    return Potentials(reduced, tuple(tables))


def restrict(potentials: Potentials, allowed: Bool[Tensor, "v s"]) -> Potentials:
    """The field in which every variable is in an allowed state."""
    graph = potentials.graph.planned(with_masks)
    tables = list(potentials.tables)
    for group in graph.groups[len(tables) :]:
        mask = allowed[group.scope[:, 0], : graph.shape(group)[0]]
        scores = torch.zeros(mask.shape, dtype=potentials.dtype, device=mask.device)
        tables.append(DenseTable(scores.masked_fill(~mask, -torch.inf)))
    return Potentials(graph, tuple(tables))


def with_masks(graph: FactorGraph) -> FactorGraph:
    """The graph with one more factor for every variable, in groups by the number of states."""
    masks = [
        FactorGroup(f"allowed {states}", (graph.states == states).nonzero())
        for states in graph.states.unique().tolist()
    ]
    return replace(graph, groups=(*graph.groups, *masks))


def expand_beliefs(
    graph: FactorGraph, variables: Float[Tensor, "v s"], evidence: Mapping[int, int]
) -> list[list[float]]:
    """The marginals of a conditioned field, over all states each variable of `graph` has."""
    full = variables.new_zeros(graph.variables, graph.most_states)
    full[:, : variables.shape[1]] = variables
    for variable, state in evidence.items():
        # Of the one state that is left: 1, or 0 where the evidence is impossible.
        full[variable] = 0.0
        full[variable, state] = variables[variable, 0]
    rows = zip(full.tolist(), graph.states.tolist(), strict=True)
    return [row[:count] for row, count in rows]


def _observed_states(graph: FactorGraph, evidence: Mapping[int, int]) -> Int[Tensor, " v"]:
    """The observed state of each variable, -1 where there is none."""
    state, counts = [-1] * graph.variables, graph.states.tolist()
    for variable, value in evidence.items():
        if not 0 <= variable < len(counts):
            raise GraphError(
                f"the evidence names variable {variable}, but there are {len(counts)} "
                f"(0 to {len(counts) - 1}). Does it count from 1?"
            )
        if not 0 <= value < counts[variable]:
            raise GraphError(
                f"the evidence puts variable {variable} in state {value}, but it has "
                f"{counts[variable]} (0 to {counts[variable] - 1}). Does the evidence belong to "
                "this network?"
            )
        state[variable] = value
    return torch.tensor(state, device=graph.device)


def _slice(
    group: FactorGroup, table: DenseTable, state: Int[Tensor, " v"]
) -> tuple[FactorGroup, DenseTable]:
    """Factors that share their observed positions, each with its own slice as table."""
    values = table.dense()[group.table]
    positions = (state[group.scope[0]] >= 0).nonzero().squeeze(1).tolist()
    for position in positions:
        chosen = state[group.scope[:, position]].reshape(-1, *[1] * group.arity)
        values = values.take_along_dim(chosen, dim=1 + position)
    name = f"{group.name} given {','.join(map(str, positions))}"
    own = torch.arange(len(group), device=values.device)
    return replace(group, name=name, table=own), DenseTable(values)
