"""Cutset conditioning: exact inference with narrow tables, for every state of some variables.

Fixing the variables of a w-cutset leaves a graph of width w [Dechter 1990; Bidyuk and Dechter
2007]; log Z is then a sum over the states of the cutset, of which many are worked on in one batch.
Memory is traded for time.  What has been summed after any number of states is a lower bound.

Letters in shapes: n: states of the cutset worked on together; k: variables of the cutset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.elimination import (
    Elimination,
    EliminationPlan,
    EliminationStructure,
    find_replicas,
    follow,
    plan_of,
)
from mrflearn.graph.elimination_orders import TooWide
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.graph.splitting import Limit, promising_orders
from mrflearn.inference.beliefs import Beliefs, zero_beliefs
from mrflearn.inference.clique_batches import Schedule, make_schedule
from mrflearn.inference.junction_tree import CliqueTree
from mrflearn.kernels.table_algebra import LOG_SUM_PRODUCT, ScaledTable

MOST_CELLS = 2**16  # states of a cutset
TOGETHER = 256  # of them worked on in one batch, where memory allows
INTERRUPTED = 2**23  # table entries after which to look at the time


@dataclass(frozen=True, eq=False)
class Cutset:
    """Variables without which a graph is narrow, and how to eliminate the others."""

    variables: tuple[int, ...]
    plan: EliminationPlan
    cells: int  # states of the cutset

    @property
    def work(self) -> int:
        """Table entries of all states together."""
        return self.cells * self.plan.elimination.total


def find_cutset(graph: FactorGraph, limit: Limit) -> Cutset | None:
    """The cutset of least work that was found, or None: none has few enough states.

    Only for graphs of one component.  Variables are chosen greedily, by how many of the tables
    beyond the limit have them.
    """
    planned = graph.planned(promising_orders)
    if len(planned) != 1 or graph.components != 1:
        return None
    best: Cutset | None = None
    ((replicas, orders),) = planned
    for order in orders:
        found = _cutset_of(replicas.structure, order, limit)
        if found is not None and (best is None or found.work < best.work):
            best = found
    return best


def _cutset_of(structure: EliminationStructure, order: list[int], limit: Limit) -> Cutset | None:
    states, cells = list(structure.states), 1
    chosen: list[int] = []
    while cells <= MOST_CELLS:
        narrowed = replace(structure, states=tuple(states))
        elimination = follow(narrowed, narrowed.neighbours(), order)
        if isinstance(elimination, TooWide):
            return None
        counts = np.zeros(len(states))
        for clique in elimination.cliques:
            size = math.log2(prod(states[v] for v in clique))
            if len(clique) > limit.variables or size > limit.log2_entries:
                counts[list(clique)] += size
        if not counts.any():
            return Cutset(tuple(chosen), plan_of(narrowed, elimination), cells)
        cost = np.log2(np.maximum(states, 2))
        variable = int(np.argmax(np.where(np.array(states) > 1, counts / cost, -1.0)))
        chosen.append(variable)
        cells *= states[variable]
        states[variable] = 1
    return None


class _Slice(NamedTuple):
    """Factors of one group that meet the cutset at the same positions, and how they are read.

    Entry e of factor f lies at `offset[e]` in its table, plus the state of each variable of the
    cutset times `stride[f]`.
    """

    group: int
    rows: Int[Tensor, " f"]
    shape: tuple[int, ...]  # with 1 at the positions of the cutset
    offset: Int[Tensor, " e"]
    stride: Int[Tensor, "f k"]

    def places(self, states: Int[Tensor, "n k"], table: Int[Tensor, " f"], size: int) -> Tensor:
        """Where all entries lie in a stack of tables of a size, of which these are read."""
        return (states @ self.stride.T + table * size).unsqueeze(-1) + self.offset


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A field given n states of its cutset at a time, on a graph of n components.

    There, variables of the cutset have a single state.
    """

    potentials: Potentials
    cutset: Cutset
    graph: FactorGraph
    schedule: Schedule
    slices: tuple[_Slice, ...]

    @classmethod
    def of(cls, potentials: Potentials, cutset: Cutset, count: int) -> Conditioned:
        """The graph and its schedule, for `count` states at a time."""
        graph = potentials.graph
        fixed = torch.tensor(cutset.variables, dtype=torch.int64, device=graph.device)
        states = graph.states.index_fill(0, fixed, 1)
        is_fixed = torch.zeros_like(graph.states, dtype=torch.bool).index_fill(0, fixed, True)
        start = torch.arange(count, device=graph.device) * graph.variables
        slices, groups = [], []
        for number, group in enumerate(graph.groups):
            if not len(group):
                continue
            full, meets = graph.shape(group), is_fixed[group.scope]
            step = [prod(full[axis + 1 :]) for axis in range(len(full))]
            for positions in meets.unique(dim=0):
                rows = (meets == positions).all(dim=1).nonzero().squeeze(1)
                scope, taken = group.scope[rows], positions.tolist()
                shape = tuple(1 if own else n for own, n in zip(taken, full, strict=True))
                offset = torch.zeros(shape, dtype=torch.int64, device=graph.device)
                stride = torch.zeros(len(rows), len(fixed), dtype=torch.int64, device=graph.device)
                for axis, length in enumerate(shape):
                    along = torch.arange(length, device=graph.device) * step[axis]
                    offset = offset + along.reshape(-1, *[1] * (len(shape) - axis - 1))
                    if taken[axis]:
                        stride += (scope[:, axis : axis + 1] == fixed) * step[axis]
                slices.append(_Slice(number, rows, shape, offset.flatten(), stride))
                joined = (start[:, None, None] + scope).reshape(-1, group.arity)
                groups.append(FactorGroup(f"{group.name} {shape}", joined))
        owner = torch.arange(count, device=graph.device).repeat_interleave(graph.variables)
        joined_graph = FactorGraph(states.repeat(count), tuple(groups), owner)
        (replicas,) = find_replicas(joined_graph)
        structure = replicas.structure  # its factors come in another order than the cutset's plan
        order = list(cutset.plan.elimination.order)
        elimination = follow(structure, structure.neighbours(), order)
        assert isinstance(elimination, Elimination)  # noqa: S101 - as it was found
        schedule = make_schedule([(plan_of(structure, elimination), replicas)], graph.device)
        return cls(potentials, cutset, joined_graph, schedule, tuple(slices))

    def at(self, states: Int[Tensor, "n k"]) -> tuple[Float[Tensor, " n"], Beliefs]:
        """log Z and the beliefs given each of these states."""
        tables = []
        for own in self.slices:
            table = self.potentials.tables[own.group].dense().detach().double()
            rows = self.potentials.graph.groups[own.group].table[own.rows]
            place = own.places(states, rows, table[0].numel())
            tables.append(DenseTable(table.flatten()[place].reshape(-1, *own.shape)))
        field = Potentials(self.graph, tuple(tables))
        packs = tuple(
            ScaledTable.of(LOG_SUM_PRODUCT, own.scores(field)) for own in self.schedule.packs
        )
        tree, found = CliqueTree(self.schedule, packs), zero_beliefs(field)
        messages = tree.collect()
        value = tree.log_partition(messages, self.graph.components)
        tree.distribute(messages)
        tree.deliver(value, found)
        return value, found


@dataclass(eq=False)
class _Sum:
    """The sum over the states of a cutset so far, and its beliefs, relative to `top`."""

    potentials: Potentials
    top: float = -math.inf
    total: float = 0.0

    def __post_init__(self) -> None:
        graph = self.potentials.graph
        shape = graph.variables, graph.most_states
        self.variables = torch.zeros(shape, dtype=torch.float64, device=graph.device)
        self.factors = [
            torch.zeros(len(group), *table.shape[1:], dtype=torch.float64, device=graph.device)
            for group, table in zip(graph.groups, self.potentials.tables, strict=True)
        ]

    def add(
        self, conditioned: Conditioned, states: Int[Tensor, "n k"], log_z: Tensor, found: Beliefs
    ) -> None:
        """Takes in some states, log Z given each of which is known."""
        top = max(self.top, float(log_z.max()))
        if top == -math.inf:
            return
        shrink, weight = math.exp(self.top - top), torch.exp(log_z - top)
        self.top, self.total = top, self.total * shrink + float(weight.sum())
        for values in (self.variables, *self.factors):
            values *= shrink
        inner = found.variables.reshape(len(states), *self.variables.shape[:1], -1)
        mean = torch.tensordot(weight, inner, 1)
        mean[list(conditioned.cutset.variables)] = 0.0
        self.variables[:, : mean.shape[1]] += mean
        for k, variable in enumerate(conditioned.cutset.variables):
            self.variables[variable].index_add_(0, states[:, k], weight)
        for own, belief in zip(conditioned.slices, found.factors, strict=True):
            into = self.factors[own.group]
            place = own.places(states, own.rows, into[0].numel())
            share = belief.reshape(place.shape) * weight[:, None, None]
            into.view(-1).index_add_(0, place.flatten(), share.flatten())

    def beliefs(self) -> Beliefs:
        """log Z and beliefs as they are now."""
        dtype = self.potentials.dtype
        value = self.top + math.log(self.total) if self.total else -math.inf
        log_z = torch.full((1,), value, dtype=dtype, device=self.variables.device)
        scale = max(self.total, 5e-324)
        factors = tuple((own / scale).to(dtype) for own in self.factors)
        return Beliefs(log_z, (self.variables / scale).to(dtype), factors, "exact")


def conditioned_sums(
    potentials: Potentials, cutset: Cutset, memory_limit: int
) -> Iterator[tuple[int, Beliefs]]:
    """How many states of the cutset have been summed, and the beliefs; exact with the last."""
    held = max(1, cutset.plan.held) * 8
    room = max(1, (memory_limit - cutset.plan.work * 8) // held)
    quick = max(1, INTERRUPTED // cutset.plan.elimination.total)
    together = min(TOGETHER, room, quick, cutset.cells)
    conditioned = Conditioned.of(potentials, cutset, together)
    sizes = [int(potentials.graph.states[v]) for v in cutset.variables]
    total = _Sum(potentials)
    for start in range(0, cutset.cells, together):
        stop = min(start + together, cutset.cells)
        numbers = torch.arange(start, stop, device=potentials.graph.device)
        states = numbers.new_zeros(len(numbers), len(sizes))
        for k in reversed(range(len(sizes))):
            states[:, k], numbers = numbers % sizes[k], numbers // sizes[k]
        if len(states) < together:
            conditioned = Conditioned.of(potentials, cutset, len(states))
        total.add(conditioned, states, *conditioned.at(states))
        yield stop, total.beliefs()
