"""Observed variables: fields given that some variables are in known or allowed states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from reprlib import repr as shortened

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, whole_number
from mrflearn.graph.potentials import DenseTable, Potentials


def condition(potentials: Potentials, evidence: Mapping[int, int]) -> Potentials:
    """The field given states of some variables: every answer is in the original numbering.

    All variables keep their numbers and their states, but an observed one has a score of -inf in
    every other state than its own: its marginal is 1 there, and it is there in each assignment and
    sample.  The log Z is that of all assignments that agree with the evidence.

    Factors over observed variables become factors over their other variables, one new group for
    each set of observed positions, so that evidence makes a graph narrower; the scores of factors
    that are observed completely are kept at their first variable.

    Parameters
    ----------
    potentials
        The field.
    evidence
        The state of each observed variable, both counted from 0.

    Examples
    --------
    >>> from mrflearn.graph import condition, dense_potentials
    >>> from mrflearn.inference import JunctionTree
    >>> field = dense_potentials([2, 3], [([0, 1], [[0.0, 1.0, 2.0], [5.0, 1.0, 0.0]])])
    >>> given = condition(field, {1: 2})
    >>> JunctionTree()(given).variables[1].tolist()
    [0.0, 0.0, 1.0]
    >>> JunctionTree().best(given).assignment.tolist()
    [0, 2]

    """
    if not hasattr(evidence, "items"):
        wanted = "evidence maps variables to their observed states, as in {0: 1}"
        raise GraphError(f"{wanted}; this is {shortened(evidence)}.")
    if len(evidence) == 0:
        return potentials
    graph = potentials.graph
    state = observed_states(graph, evidence)
    groups: list[FactorGroup] = []
    tables: list[DenseTable] = []
    constant = torch.zeros(graph.variables, dtype=potentials.dtype, device=graph.device)
    for group, table in zip(graph.groups, potentials.tables, strict=True):
        observed = state[group.scope] >= 0
        patterns = observed.unique(dim=0) if len(group) else observed.new_zeros(1, group.arity)
        for positions in patterns:
            rows = (observed == positions).all(dim=1).nonzero().squeeze(1)
            part = FactorGroup(group.name, group.scope[rows], group.table[rows])
            if not bool(positions.any()):
                groups.append(part)
                tables.append(table)
            elif bool(positions.all()):
                constant = constant.index_add(0, part.scope[:, 0], _slices(part, table, state))
            else:
                given = ",".join(map(str, positions.nonzero().squeeze(1).tolist()))
                groups.append(FactorGroup(f"{group.name} given {given}", part.scope[:, ~positions]))
                tables.append(DenseTable(_slices(part, table, state)))
    for count in graph.states[state >= 0].unique().tolist():
        seen = ((state >= 0) & (graph.states == count)).nonzero()
        own = torch.arange(count, device=graph.device) == state[seen]
        groups.append(FactorGroup(f"observed {count}", seen))
        tables.append(DenseTable(torch.where(own, constant[seen], -torch.inf)))
    return Potentials(replace(graph, groups=tuple(groups)), tuple(tables))


def touching(potentials: Potentials, variables: Int[Tensor, " m"]) -> Potentials:
    """The factors of some variables alone: what the odds of their states depend on."""
    groups, tables = [], []
    for group, table in zip(potentials.graph.groups, potentials.tables, strict=True):
        here = torch.isin(group.scope, variables.to(group.scope.device)).any(dim=1)
        rows = here.nonzero().squeeze(1)
        if len(rows):
            groups.append(FactorGroup(group.name, group.scope[rows]))
            tables.append(DenseTable(table.dense()[group.table[rows]]))
    return Potentials(replace(potentials.graph, groups=tuple(groups)), tuple(tables))


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


def observed_states(graph: FactorGraph, evidence: Mapping[int, int]) -> Int[Tensor, " v"]:
    """The observed state of each variable, -1 where there is none."""
    state, counts = [-1] * graph.variables, graph.states.tolist()
    for given, observed in evidence.items():
        variable, value = whole_number(given), whole_number(observed)
        if variable is None or value is None:
            found = f"the evidence {{{shortened(given)}: {shortened(observed)}}}"
            wanted = "variables and states are named by their numbers, from 0 on"
            raise GraphError(f"{found}: {wanted}. Give names to them: rain, wet = range(2).")
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


def _slices(
    group: FactorGroup, table: DenseTable, state: Int[Tensor, " v"]
) -> Float[Tensor, " f *shape"]:
    """The scores of factors that share their observed positions, over the other positions."""
    values = table.dense()[group.table]
    positions = (state[group.scope[0]] >= 0).nonzero().squeeze(1).tolist()
    for position in reversed(positions):
        chosen = state[group.scope[:, position]].reshape(-1, *[1] * (values.ndim - 1))
        values = values.take_along_dim(chosen, dim=1 + position).squeeze(1 + position)
    return values
