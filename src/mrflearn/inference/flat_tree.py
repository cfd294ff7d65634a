"""Small junction trees on flat arrays: a few calls for each level of the tree, both ways.

The tables of a small tree have few entries, and the calls that handle one after the other take
longer than the arithmetic.  So the entries of all cliques of one height stand end to end, and lists
of places say which factor entries and message cells each of them multiplies.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.graph.elimination import Elimination, EliminationPlan, Replicas, find_plans
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, zero_beliefs

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Strides = tuple[tuple[int, int], ...]  # (states, how far from one to the next), axis by axis

MOST_ENTRIES = 2**20  # of all tables
LEVEL = 2**11  # entries that take as long as the calls for one more level
DEEPEST = 300.0  # nats between entries of a factor that is handled in linear arithmetic
MOST_CLIQUES = 512  # more are worked on in batches of one form


def _cost(elimination: Elimination) -> int:
    """Entries to work on, and the levels to go through, in entries."""
    return elimination.total + LEVEL * max(elimination.heights, default=0)


class Draft(NamedTuple):
    """One clique: the cells that each of its inputs multiplies its entries by, and its message.

    An input is (the first cell, where from there each entry looks).  The variable that is summed
    out changes fastest.
    """

    inputs: list[tuple[int, Numbers]]
    first: int  # the first cell of the message
    cells: int
    own: int  # the states of the variable
    variable: int
    component: int


class FlatLevel(NamedTuple):
    """Cliques of one height, those of most inputs first, so that a slot's entries are a prefix.

    A slot is (the first cell, where from there each entry looks).
    """

    slots: tuple[tuple[int, Numbers], ...]
    cells: Numbers
    starts: Numbers  # of the entries of each message cell
    lengths: Numbers  # how many there are
    cliques: Numbers  # where the cells of each clique begin
    sizes: Numbers  # how many there are
    components: Numbers
    states: Numbers  # of each entry: the variable that is summed out and its state, as one number


class FlatTree(NamedTuple):
    """Cell 0 is always 1; then come the entries of factors, group by group, then messages."""

    levels: tuple[FlatLevel, ...]
    factors: tuple[slice, ...]
    cells: int

    def beliefs(self, potentials: Potentials) -> Beliefs:
        """Exact beliefs.  Raises `FloatingPointError` where double precision is too narrow."""
        graph, found = potentials.graph, zero_beliefs(potentials)
        cells = np.ones(self.cells)
        log_z = np.zeros(graph.components)
        with np.errstate(under="raise", over="raise", divide="ignore", invalid="ignore"):
            for index, (group, place) in enumerate(zip(graph.groups, self.factors, strict=True)):
                scores = potentials.factor_scores(index).detach().double().numpy()
                if len(group):
                    flat = scores.reshape(len(group), -1)
                    top = flat.max(axis=1)
                    np.add.at(log_z, graph.component_of(group).numpy(), top)
                    finite = np.where(top > -math.inf, top, 0.0)[:, None]
                    lowest = np.where(flat > -math.inf, flat - finite, 0.0).min()
                    if lowest < -DEEPEST:
                        raise FloatingPointError
                    cells[place] = np.exp(flat - finite).ravel()
            totals, values = np.zeros(self.cells), []
            for level in self.levels:
                (first, slot), *rest = level.slots
                own = cells[first:][slot]
                for first, slot in rest:
                    own[: len(slot)] *= cells[first:][slot]
                sums = np.add.reduceat(own, level.starts)
                top = np.maximum.reduceat(sums, level.cliques)
                np.add.at(log_z, level.components, np.log(top))
                totals[level.cells] = sums
                top[top == 0] = 1.0
                cells[level.cells] = sums / np.repeat(top, level.sizes)
                values.append(own)
            shares, single = self._down(values, totals, graph)
        possible = log_z > -math.inf
        found.log_partition.copy_(torch.from_numpy(log_z))
        single *= possible[graph.component.numpy()][:, None]
        found.variables.copy_(torch.from_numpy(single))
        for group, place, belief in zip(graph.groups, self.factors, found.factors, strict=True):
            if len(group):
                own = shares[place].reshape(len(group), -1)
                own *= possible[graph.component_of(group).numpy()][:, None]
                belief.copy_(torch.from_numpy(own).view(belief.shape))
        return found

    def _down(self, values: list[Array], totals: Array, graph: FactorGraph) -> tuple[Array, Array]:
        """The probability of every cell and of every variable's states; `values` are used up."""
        shares = np.zeros(self.cells)
        single = np.zeros(graph.variables * graph.most_states)
        for level in reversed(self.levels):
            sums, share = totals[level.cells], shares[level.cells]
            roots = level.sizes == 1
            share[level.cliques[roots]] = 1.0  # a message of one cell says nothing: it is a root's
            share[sums == 0] = 0.0
            sums[sums == 0] = 1.0
            own = values.pop()
            own *= np.repeat(share / sums, level.lengths)
            for first, slot in level.slots:
                np.add.at(shares[first:], slot, own[: len(slot)])
            np.add.at(single, level.states, own)
        return shares, single.reshape(graph.variables, graph.most_states)


def make_flat_tree(graph: FactorGraph) -> FlatTree | None:
    """The tree of a small graph on a processor; None where tables or cliques are too many."""
    if graph.device.type != "cpu" or not 0 < graph.variables <= MOST_CLIQUES:
        return None
    plans, total = [], 0
    for plan, replicas in graph.planned(find_plans):
        if not isinstance(plan, EliminationPlan):
            return None
        best = min(plan.found, plan.elimination, key=_cost)
        plans.append((best, replicas))
        total += best.total * len(replicas.components)
    if total > MOST_ENTRIES:
        return None
    factors, cell = [], 1
    for group in graph.groups:
        entries = len(group) * math.prod(graph.shape(group)) if len(group) else 0
        factors.append(slice(cell, cell + entries))
        cell += entries
    levels: list[list[Draft]] = []
    known: dict[Strides, Numbers] = {}
    for elimination, replicas in plans:
        for number in range(len(replicas.components)):
            drafts = _drafts(elimination, replicas, number, factors, cell, known)
            for height, draft in zip(elimination.heights, drafts, strict=True):
                while len(levels) < height:
                    levels.append([])
                levels[height - 1].append(draft)
            cell = drafts[-1].first + drafts[-1].cells
    most = graph.most_states
    return FlatTree(tuple(_level(drafts, most) for drafts in levels), tuple(factors), cell)


def _drafts(
    elimination: Elimination,
    replicas: Replicas,
    number: int,
    factors: list[slice],
    cell: int,
    known: dict[Strides, Numbers],
) -> list[Draft]:
    """The cliques of one component, whose messages begin at a given cell."""
    structure = replicas.structure
    states, place = structure.states, {v: k for k, v in enumerate(elimination.order)}
    inside: list[list[int]] = [[] for _ in place]
    for factor, scope in enumerate(structure.scopes):
        # A variable of a single state has no axis, unless all are such.
        free = [place[v] for v in scope if states[v] > 1] or [place[v] for v in scope]
        inside[min(free)].append(factor)
    children: list[list[int]] = [[] for _ in place]
    for k, parent in enumerate(elimination.parent):
        if parent >= 0:
            children[parent].append(k)
    drafts: list[Draft] = []
    for k, clique in enumerate(elimination.cliques):
        scope = (*clique[1:], clique[0])
        sizes = tuple(states[v] for v in scope)
        inputs = []
        for factor in inside[k]:
            group, row = replicas.places[factor]
            own = structure.scopes[factor]
            entries = math.prod(states[v] for v in own)
            first = factors[group].start + entries * int(replicas.factors[group][number, row])
            inputs.append((first, _offsets(scope, sizes, own, states, known)))
        for child in children[k]:
            own = elimination.cliques[child][1:]
            inputs.append((drafts[child].first, _offsets(scope, sizes, own, states, known)))
        entries = math.prod(sizes)
        inputs = inputs or [(0, np.zeros(entries, dtype=np.int64))]
        variable = int(replicas.variables[number, clique[0]])
        cells = entries // sizes[-1]
        component = int(replicas.components[number])
        drafts.append(Draft(inputs, cell, cells, sizes[-1], variable, component))
        cell += cells
    return drafts


def _offsets(
    scope: tuple[int, ...],
    sizes: tuple[int, ...],
    own: tuple[int, ...],
    states: tuple[int, ...],
    known: dict[Strides, Numbers],
) -> Numbers:
    """Where in a table over its own variables each entry of a clique looks."""
    stride, step = {}, 1
    for v in reversed(own):
        stride[v] = step
        step *= states[v]
    runs: list[tuple[int, int]] = []  # neighbouring axes that can be walked as one
    for v, size in zip(scope, sizes, strict=True):
        step = stride.get(v, 0)
        if runs and runs[-1][1] == step * size:
            runs[-1] = (runs[-1][0] * size, step)
        else:
            runs.append((size, step))
    axes = tuple(runs)
    if axes not in known:
        found = np.zeros(1, dtype=np.int64)
        for size, step in reversed(axes):  # so that what is added to is always a long row
            found = (step * np.arange(size)[:, None] + found).ravel()
        known[axes] = found
    return known[axes]


def _level(drafts: list[Draft], most: int) -> FlatLevel:
    """Cliques side by side."""
    drafts = sorted(drafts, key=lambda draft: -len(draft.inputs))
    cells = np.concatenate([np.arange(d.first, d.first + d.cells) for d in drafts])
    sizes = np.array([d.cells for d in drafts])
    lengths = np.repeat([d.own for d in drafts], sizes)
    return FlatLevel(
        tuple(
            _slot([d.inputs[i] for d in drafts if len(d.inputs) > i])
            for i in range(len(drafts[0].inputs))
        ),
        cells,
        np.cumsum(lengths) - lengths,
        lengths,
        np.cumsum(sizes) - sizes,
        sizes,
        np.array([d.component for d in drafts]),
        np.concatenate([np.tile(d.variable * most + np.arange(d.own), d.cells) for d in drafts]),
    )


def _slot(parts: list[tuple[int, Numbers]]) -> tuple[int, Numbers]:
    """Inputs of several cliques as one; that of a single one is not copied."""
    if len(parts) == 1:
        return parts[0]
    return 0, np.concatenate([first + places for first, places in parts])
