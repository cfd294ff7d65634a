"""Equivalent parametrisations of a field: gauges, and Ising models in spins.

Adding a function of x_i to a pair table and taking it from the table of x_i alone changes nothing
that can be observed.  A gauge removes that freedom by a projection A on every axis of a table:

    J(x, y) = (1-A_x)(1-A_y) J   +   (1-A_x) A_y J   +   A_x (1-A_y) J   +   A_x A_y J
              stays in the pair      to x's own table    to y's own table    constant, dropped

and likewise for cliques of more variables, whose parts go to the tables of all smaller cliques.

`reference`: A takes the entry at state 0, so potentials vanish in the reference state (what LAP
needs).  `zero_sum`: A takes the mean, so every table sums to zero along each axis; for two states
this is the physicists' spin form, with h_i = table_i(1) and J_ij = table_ij(1, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials

# The same distribution written with other numbers.


Scopes = Int[Tensor, "f k"]
Projection = Callable[[Tensor, int], Tensor]


def reference_gauge(potentials: Potentials) -> Potentials:
    """The same distribution with tables that vanish where any variable is in state 0."""
    return _regauge(potentials, lambda table, axis: table.narrow(axis, 0, 1))


def zero_sum_gauge(potentials: Potentials) -> Potentials:
    """The same distribution with tables that sum to zero along each axis."""
    return _regauge(potentials, lambda table, axis: table.mean(dim=axis, keepdim=True))


def _regauge(potentials: Potentials, project: Projection) -> Potentials:
    graph = potentials.graph
    tables = [potentials.factor_scores(i) for i in range(len(graph.groups))]
    if any(not bool(table.isfinite().all()) for table in tables):
        raise GraphError("a field with impossible states (-inf) has no such gauge.")
    for index in sorted(range(len(tables)), key=lambda i: -graph.groups[i].arity):
        group, whole = graph.groups[index], tables[index]
        axes = range(group.arity)
        smaller = chain.from_iterable(combinations(axes, size) for size in axes[1:])
        for keep in smaller:  # all sets of some, not all, of the axes
            part = _part(whole, keep, project)
            _add_to_subsets(graph, tables, group.scope[:, keep], part)
        tables[index] = _part(whole, tuple(axes), project)
    groups = tuple(FactorGroup(group.name, group.scope) for group in graph.groups)
    return Potentials(replace(graph, groups=groups), tuple(DenseTable(table) for table in tables))


def _part(
    table: Float[Tensor, " f *shape"], keep: tuple[int, ...], project: Projection
) -> Float[Tensor, " f *kept"]:
    """What depends on just the kept axes: 1 - A along them, A along the others."""
    for axis in range(table.ndim - 1):
        share = project(table, axis + 1)
        table = table - share if axis in keep else share
    return table.squeeze(tuple(axis for axis in range(1, table.ndim) if axis - 1 not in keep))


def _add_to_subsets(
    graph: FactorGraph, tables: list[Tensor], scope: Scopes, amount: Float[Tensor, " f *shape"]
) -> None:
    """Adds parts of larger cliques to the table of one clique over each scope."""
    unmatched = (amount != 0).flatten(start_dim=1).any(dim=1)
    for index, group in enumerate(graph.groups):
        if group.arity != scope.shape[1] or not len(group):
            continue
        factor = _find(group.scope, scope)
        here = unmatched & (factor >= 0)
        for order, members in _orders(group.scope[factor.clamp_min(0)], scope, here):
            turned = amount[members].permute(0, *(1 + axis for axis in order))
            tables[index] = tables[index].index_add(0, factor[members], turned)
        unmatched = unmatched & ~here
    if bool(unmatched.any()):
        variables = scope[unmatched][0].tolist()
        who = f"variable {variables[0]}" if len(variables) == 1 else f"the clique {variables}"
        raise GraphError(
            f"{who} has no table of its own to take up what the gauge moves there; add a factor "
            "there (a unary factor to every variable, a pair to every triple's pairs)."
        )


def _find(known: Int[Tensor, "g k"], wanted: Scopes) -> Int[Tensor, " f"]:
    """The last of the known scopes over the same variables as each wanted one; -1 if none."""
    rows = torch.cat([known, wanted]).sort(dim=1).values
    have, want = rows.unique(dim=0, return_inverse=True)[1].split([len(known), len(wanted)])
    ordered, place = have.sort(stable=True)
    last = (torch.searchsorted(ordered, want, right=True) - 1).clamp_min(0)
    return torch.where(ordered[last] == want, place[last], -1)


def _orders(target: Scopes, scope: Scopes, here: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """The ways in which axes must be permuted to stand as in the target, each with its factors."""
    if not bool(here.any()):
        return
    turn = (target.unsqueeze(2) == scope.unsqueeze(1)).to(torch.int64).argmax(dim=2)
    for order in turn[here].unique(dim=0):
        yield order.tolist(), (here & (turn == order).all(dim=1)).nonzero().squeeze(1)


# Ising parameters as potentials on a pairwise graph, and back.


SPINS = (-1.0, 1.0)  # state 0 is the spin -1


@dataclass(frozen=True, eq=False)
class IsingParameters:
    """Score = constant + sum_i fields[i] s_i + sum_e couplings[e] s_i s_j, with s = -1 or +1."""

    fields: Float[Tensor, " v"]
    couplings: Float[Tensor, " e"]
    constant: Float[Tensor, ""]


def ising(
    graph: FactorGraph, fields: Float[Tensor, " t"], couplings: Float[Tensor, " u"]
) -> Potentials:
    """Potentials of spins -1 (state 0) and +1 (state 1): one field a table, one coupling a table.

    On an untied graph that is one field a variable and one coupling an edge.
    """
    h, J = torch.as_tensor(fields), torch.as_tensor(couplings)
    spins = torch.tensor(SPINS, dtype=h.dtype, device=h.device)
    both = torch.outer(spins, spins).to(J.dtype)
    tables = {"unary": h[:, None] * spins, "pairwise": J[:, None, None] * both}
    _spin_groups(graph)
    return Potentials(graph, tuple(DenseTable(tables[group.name]) for group in graph.groups))


def random_ising(graph: FactorGraph, scale: float = 1.0, seed: int = 0) -> Potentials:
    """Fields uniform in (-1, 1), couplings uniform in (-scale, scale), in float64, from a seed."""
    groups = [graph.groups[i] for i in _spin_groups(graph)]
    tables, pairs = (int(group.table.max()) + 1 if len(group) else 0 for group in groups)
    draw = np.random.default_rng(seed)
    fields = torch.from_numpy(draw.uniform(-1, 1, tables))
    couplings = torch.from_numpy(scale * draw.uniform(-1, 1, pairs))
    return ising(graph, fields, couplings)


def ising_parameters(potentials: Potentials) -> IsingParameters:
    """The only spin parameters that give every assignment of a binary pairwise field its score."""
    graph = potentials.graph
    if graph.variables and bool((graph.states != 2).any()):
        raise GraphError("spins have two states; some variables here have other numbers of states.")
    gauged = zero_sum_gauge(potentials)
    first, second = _spin_groups(graph)
    unary, pair = gauged.factor_scores(first), gauged.factor_scores(second)
    own = graph.groups[first].scope[:, 0]
    fields = unary.new_zeros(graph.variables).index_add(0, own, unary[:, 1])
    row = torch.zeros(1, graph.variables, dtype=torch.int64, device=graph.device)
    constant = (potentials.score(row) - gauged.score(row)).sum()
    return IsingParameters(fields, pair[:, 1, 1], constant)


def _spin_groups(graph: FactorGraph) -> tuple[int, int]:
    """The numbers of the groups "unary" and "pairwise", the only ones."""
    names = [group.name for group in graph.groups]
    if sorted(names) != ["pairwise", "unary"]:
        raise GraphError(
            f"a field of spins has the groups 'unary' and 'pairwise', not {names}. Build the graph "
            "with a builder such as grid(), with equal state counts."
        )
    return names.index("unary"), names.index("pairwise")
