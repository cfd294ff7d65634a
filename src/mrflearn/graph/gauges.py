"""The same distribution written with other numbers.

Adding a function of x_i to a pair table and taking it from the table of x_i alone changes nothing
that can be observed.  A gauge removes that freedom by a projection A on every axis of a table:

    J(x, y) = (1-A_x)(1-A_y) J   +   (1-A_x) A_y J   +   A_x (1-A_y) J   +   A_x A_y J
              stays in the pair      to x's own table    to y's own table    constant, dropped

`reference`: A takes the entry at state 0, so potentials vanish in the reference state (what LAP
needs).  `zero_sum`: A takes the mean, so every table sums to zero along each axis; for two states
this is the physicists' spin form, with h_i = table_i(1) and J_ij = table_ij(1, 1).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials

Projection = Callable[[Tensor, int], Tensor]


def reference_gauge(potentials: Potentials) -> Potentials:
    """The same distribution with tables that vanish where any variable is in state 0."""
    return _regauge(potentials, lambda table, axis: table.narrow(axis, 0, 1))


def zero_sum_gauge(potentials: Potentials) -> Potentials:
    """The same distribution with tables that sum to zero along each axis."""
    return _regauge(potentials, lambda table, axis: table.mean(dim=axis, keepdim=True))


def _regauge(potentials: Potentials, project: Projection) -> Potentials:
    graph = potentials.graph
    tables = [potentials.factor_scores(i).clone() for i in range(len(graph.groups))]
    if any(not bool(table.isfinite().all()) for table in tables):
        raise GraphError("a field with impossible states (-inf) has no such gauge.")
    home = _unary_home(graph)
    for index, group in enumerate(graph.groups):
        if group.arity > 2:
            raise GraphError(f"group '{group.name}': gauges are for factors of one or two axes.")
        if group.arity == 2:
            pair = tables[index]
            over_y = project(pair, 2)
            over_x = project(pair, 1)
            over_both = project(over_y, 1)
            tables[index] = pair - over_x - over_y + over_both
            _hand_over(tables, home, group.scope[:, 0], (over_y - over_both).squeeze(2))
            _hand_over(tables, home, group.scope[:, 1], (over_x - over_both).squeeze(1))
    for index, group in enumerate(graph.groups):
        if group.arity == 1:
            tables[index] = tables[index] - project(tables[index], 1)
    groups = tuple(FactorGroup(group.name, group.scope) for group in graph.groups)
    untied = FactorGraph(graph.states, groups, graph.component, graph.copies)
    return Potentials(untied, tuple(DenseTable(table) for table in tables))


def _unary_home(graph: FactorGraph) -> Tensor:
    """(group, factor) of one unary factor of every variable; -1 where it has none."""
    home = torch.full((graph.variables, 2), -1, dtype=torch.int64, device=graph.device)
    for index, group in enumerate(graph.groups):
        if group.arity == 1:
            home[group.scope[:, 0], 0] = index
            home[group.scope[:, 0], 1] = torch.arange(len(group), device=graph.device)
    return home


def _hand_over(tables: list[Tensor], home: Tensor, variables: Tensor, amount: Tensor) -> None:
    where = home[variables]
    lost = (where[:, 0] < 0) & (amount != 0).any(dim=1)
    if bool(lost.any()):
        variable = int(variables[lost][0])
        raise GraphError(
            f"variable {variable} has no table of its own to take up what the gauge moves there; "
            "add a unary factor to every variable."
        )
    for index in where[:, 0].unique().tolist():
        if index >= 0:
            here = where[:, 0] == index
            tables[index] = tables[index].index_add(0, where[here, 1], amount[here])
