"""The arithmetic circuit of a field: a junction tree written out entry by entry [Darwiche 2003].

It has the entries of all tables that can be positive, and for each the message cells that it
multiplies and the one it is summed into.  Impossible entries are found once, by passing "possible
or not" through the tree both ways, and left out: networks of many zeros (pedigrees, diagnoses)
shrink a hundredfold.  A clique that only sums a variable out of the message of one child is merged
with that child.  An answer is then a few gathers and segment sums for each level of the tree, for
any number of evidences at a time.

Letters in shapes: e: entries of all tables; l: leaves; j: joint states that leaves are of; k:
states of all variables; c: components; n: evidences asked about together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from mrflearn.graph.elimination import EliminationPlan, Replicas, find_plans
from mrflearn.graph.elimination_orders import TooWide
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.kernels.compiled import CIRCUIT, Loop

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

MOST_DENSE = 2**26  # entries of all tables, looked through once for those that are possible
MOST_ENTRIES = 2**22  # possible entries that are written out
TINY = 1e-250  # the least weight of a possible entry beside the largest of its table
MOST_CHILDREN = 64  # of a clique, in the table that the compiled loop reads
ENTRY_SECONDS = 20e-9  # of numpy for one entry and one evidence, until the loop is compiled


class Clique(NamedTuple):
    """One table while the circuit is made: its variables, and which of its entries are possible.

    The last `summed` of its axes are summed out; `weights` is the product of its factors.
    """

    variables: tuple[int, ...]
    weights: Array
    possible: NDArray[np.bool_]
    children: list[int]
    component: int
    summed: int = 1

    @property
    def separator(self) -> tuple[int, ...]:
        """The variables of its message."""
        return self.variables[: -self.summed]

    def message(self) -> NDArray[Any]:
        """Which cells of its message are possible."""
        found: NDArray[Any] = np.any(self.possible, axis=tuple(range(-self.summed, 0)))
        return found


class CircuitLevel(NamedTuple):
    """Cliques of one height, side by side; `slots` are the first, second ... of their children.

    The first child is the one with the most cells.  Cliques above the lowest level have children.

    A slot is (how many entries have one, which cell each multiplies, the order that sorts entries
    by that cell, where each cell begins in it, the cells).
    """

    entries: slice
    cells: slice
    starts: Numbers  # of the entries of each cell, from the level's first
    lengths: Numbers  # how many entries each cell has
    cliques: Numbers  # where the cells of each clique begin, from the level's first
    sizes: Numbers  # how many cells each clique has
    components: Numbers  # of each clique
    slots: tuple[tuple[int, Numbers, Numbers, Numbers, Numbers], ...]


@dataclass(frozen=True, eq=False)
class Circuit:
    """The levels from the leaves to the roots.

    A leaf is a weight and a joint state of the variables that a clique sums out: what an entry is
    worth before messages, if evidence allows those states.
    """

    levels: tuple[CircuitLevel, ...]
    leaf: Numbers  # (e) of each entry
    weights: Array  # (l)
    joint: Numbers  # (l)
    states: Numbers  # (j, most in one) numbered through all variables; k where there are no more
    by_joint: tuple[Numbers, Numbers, Numbers]  # of entries: order, where each begins, which occur
    offset: Array  # (c) of log Z
    cells: int

    def answer(self, allowed: Float[Array, "k n"]) -> tuple[Array, Array]:
        """log Z (c, n) and the probability of every state (k, n), where some are not allowed.

        Raises `FloatingPointError` where numbers leave the range of double precision.
        """
        n = allowed.shape[1]
        every = np.append(allowed, np.ones((1, n)), axis=0)
        leaves = every[self.states].prod(axis=1)[self.joint]
        leaves *= self.weights[:, None]
        few = all(len(level.slots) <= MOST_CHILDREN for level in self.levels)
        if few and (loop := CIRCUIT.after(ENTRY_SECONDS * len(self.leaf) * n)):
            log_z, beliefs = self._answer_compiled(loop, leaves)
        else:
            log_z, beliefs = self._answer_by_levels(leaves)
        marginals = np.zeros_like(every)
        for states in self.states.T:
            np.add.at(marginals, states, beliefs)
        return log_z, marginals[:-1]

    def _answer_by_levels(self, leaves: Float[Array, "l n"]) -> tuple[Array, Array]:
        """log Z (c, n) and the probability of every joint state (j, n)."""
        n = leaves.shape[1]
        cells, totals = np.empty((self.cells, n)), np.empty((self.cells, n))
        values = leaves[self.leaf]
        log_z = np.repeat(self.offset[:, None], n, axis=1)
        with np.errstate(under="raise", over="raise"):
            for level in self.levels:
                own = values[level.entries]
                for count, factors, *_ in level.slots:
                    own[:count] *= cells[factors]
                sums = np.add.reduceat(own, level.starts, axis=0)
                top = np.maximum.reduceat(sums, level.cliques, axis=0)
                with np.errstate(divide="ignore"):
                    np.add.at(log_z, level.components, np.log(top))
                top[top == 0] = 1.0
                totals[level.cells] = sums
                cells[level.cells] = sums / np.repeat(top, level.sizes, axis=0)
            return log_z, self._beliefs(values, totals)

    def _beliefs(self, values: Array, totals: Array) -> Array:
        """The probability of every joint state; `values` and `totals` are used up."""
        beliefs = np.ones_like(totals)  # of the cells of roots; all others are filled in
        for level in reversed(self.levels):
            sums = totals[level.cells]
            share = beliefs[level.cells]
            share[sums == 0] = 0.0
            sums[sums == 0] = 1.0
            share /= sums
            own = values[level.entries]
            own *= np.repeat(share, level.lengths, axis=0)
            for count, _, order, starts, cells in level.slots:
                beliefs[cells] = np.add.reduceat(own[:count][order], starts, axis=0)
        order, starts, occur = self.by_joint
        found = np.zeros((len(self.states), values.shape[1]))
        found[occur] = np.add.reduceat(values[order], starts, axis=0)
        return found

    def _answer_compiled(self, loop: Loop, leaves: Float[Array, "l n"]) -> tuple[Array, Array]:
        log_z = np.repeat(self.offset[None], leaves.shape[1], axis=0)
        beliefs = np.zeros((leaves.shape[1], len(self.states)))
        smallest = np.finfo(np.float64).tiny
        for own, z, found in zip(np.ascontiguousarray(leaves.T), log_z, beliefs, strict=True):
            loop(own, self.joint, *self._flat, smallest, z, found)
        if np.isnan(log_z).any():
            raise FloatingPointError
        return log_z.T, beliefs.T

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """What `circuit_loop` reads: the entries of each clique by the cell of its first child.

        Entries without a child are all of one more cell, which is worth 1.
        """
        first = np.concatenate([level.cells.start + level.cliques for level in self.levels])
        first = np.append(first, self.cells)  # of each clique, and their number
        lowest, width = len(self.levels[0].cliques), max(len(own.slots) for own in self.levels)
        rows = np.zeros((len(first) - 1, 9 + max(width, 3)), dtype=np.int64)
        rows[:, 0], rows[:, 1] = first[:-1], first[1:]
        rows[:, 2] = np.concatenate([level.components for level in self.levels])
        rows[:, 3] = 1
        leaf, own = [], []
        begins = np.zeros(self.cells + len(rows) + 2 * lowest, dtype=np.uint32)
        others: list[Numbers] = []
        placed = k = 0
        for level in self.levels:
            ends = [*level.starts[level.cliques].tolist(), level.entries.stop - level.entries.start]
            cell = level.cells.start + np.repeat(np.arange(len(level.lengths)), level.lengths)
            for start, end in pairwise(ends):
                leaves = self.leaf[level.entries][start:end]
                children = [cells[start:end] for count, cells, *_ in level.slots if start < count]
                main, at = np.zeros(end - start, dtype=np.int64), len(rows) + k
                if children:
                    inner = [int(np.searchsorted(first, own[0], "right")) - 1 for own in children]
                    rows[inner, 3], at = 0, inner[0]
                    main = children[0] - first[at]
                rows[k, 4:6] = at, first[at] if children else self.cells + k
                # Entries that follow each other are of different cells, which are added to faster.
                order = np.lexsort((leaves, main))
                begin = np.flatnonzero(np.diff(main[order], prepend=-1, append=main.max() + 1))
                begins[rows[k, 5] + at + np.arange(len(begin))] = begin
                rows[k, 6:8] = level.entries.start + np.array([start, end])
                rows[k, 8] = max(0, len(children) - 1)
                for i, cells in enumerate(children[1:], 9):
                    rows[k, i] = placed
                    others.append(cells[order])
                    placed += end - start
                leaf.append(leaves[order])
                own.append(cell[start:end][order])
                k += 1
        return (
            np.concatenate(leaf).astype(np.min_scalar_type(len(self.weights))),
            np.concatenate(own).astype(np.uint32),
            begins,
            np.concatenate([np.zeros(1, dtype=np.int64), *others])[1:].astype(np.uint32),
            rows,
        )


# How a circuit is made.


def make_circuit(potentials: Potentials) -> Circuit | None:
    """The circuit of a field; None where it would be too large, or there is nothing to ask."""
    graph = potentials.graph
    plans = graph.planned(find_plans)
    dense = 0
    for plan, replicas in plans:
        if isinstance(plan, TooWide):
            return None
        dense += plan.elimination.total * len(replicas.components)
    if dense > MOST_DENSE or not graph.variables:
        return None
    tables = [table.dense().detach().double().cpu().numpy() for table in potentials.tables]
    cliques: list[Clique] = []
    offset = np.zeros(graph.components)
    for plan, replicas in plans:
        assert isinstance(plan, EliminationPlan)  # noqa: S101 - looked at above
        for number in range(len(replicas.components)):
            first = len(cliques)
            for own, top in _cliques(plan, replicas, number, tables, graph, cliques):
                offset[own.component] += top
                cliques.append(own)
            _prune(cliques, first)
    cliques = _merged(cliques)
    counts = [int(own.possible.sum()) for own in cliques]
    if sum(counts) > MOST_ENTRIES or not all(counts):  # 0: nothing at all is possible
        return None
    if any(own.weights[own.possible].min() < TINY for own in cliques):
        return None
    return _written_out(cliques, offset, graph)


def _cliques(
    plan: EliminationPlan,
    replicas: Replicas,
    number: int,
    tables: list[Array],
    graph: FactorGraph,
    before: list[Clique],
) -> Iterable[tuple[Clique, float]]:
    """The tables of one component, children before parents, and the log of what each is scaled by.

    What is possible is, so far, what its factors and those of its descendants allow.
    """
    component, variables = int(replicas.components[number]), replicas.variables[number]
    first = len(before)
    elimination, states = plan.elimination, replicas.structure.states
    inside: list[list[int]] = [[] for _ in elimination.order]
    for factor, axes in enumerate(plan.factor_axes):
        inside[axes[0]].append(factor)
    children: list[list[int]] = [[] for _ in elimination.order]
    for k, parent in enumerate(elimination.parent):
        if parent >= 0:
            children[parent].append(first + k)
    for k, clique in enumerate(elimination.cliques):
        scope = (*clique[1:], clique[0])
        shape = tuple(states[v] for v in scope)
        scores = np.zeros(shape)
        for factor in inside[k]:
            group, place = replicas.places[factor]
            row = int(graph.groups[group].table[replicas.factors[group][number, place]])
            own = replicas.structure.scopes[factor]
            scores = scores + _spread(tables[group][row], own, scope, states)
        possible = scores > -math.inf
        for child in children[k]:
            inner = before[child]
            named = tuple(variables[list(scope)].tolist())
            possible &= _spread(inner.message(), inner.separator, named, None)
        top = float(scores.max(initial=-math.inf, where=possible))
        top = top if top > -math.inf else 0.0
        numbered = tuple(variables[list(scope)].tolist())
        weights = np.exp(scores - top, where=possible, out=np.zeros(shape))
        yield Clique(numbered, weights, possible, children[k], component), top


def _spread(
    table: NDArray[Any], own: Sequence[int], scope: Sequence[int], states: Sequence[int] | None
) -> NDArray[Any]:
    """A table over some variables, with its axes where they are in a larger scope.

    Variables of a single state may be missing in the scope.
    """
    if states is not None and any(v not in scope for v in own):
        kept = [v for v in own if v in scope]
        table = table.reshape([states[v] for v in kept])
        own = kept
    order = sorted(range(len(own)), key=lambda i: scope.index(own[i]))
    size = dict(zip(own, table.shape, strict=True))
    return table.transpose(order).reshape([size.get(v, 1) for v in scope])


def _prune(cliques: list[Clique], first: int) -> None:
    """Leaves possible only what some possible assignment of the whole component agrees with."""
    for clique in reversed(cliques[first:]):
        for child in clique.children:
            kept = set(cliques[child].separator)
            others = tuple(i for i, v in enumerate(clique.variables) if v not in kept)
            left = [v for v in clique.variables if v in kept]
            message: NDArray[Any] = np.any(clique.possible, axis=others)
            message = _spread(message, left, cliques[child].separator, None)
            cliques[child].possible[...] &= message[..., None]


def _merged(cliques: list[Clique]) -> list[Clique]:
    """Pruned cliques, without those that only sum a variable out of the message of a child.

    Such a clique has the variables of that message, and all its entries weigh alike.  The two
    become one, which sums out the variables of both.
    """
    found: list[Clique | None] = []
    for own in cliques:
        found.append(own)
        weights = own.weights[own.possible]
        if not len(weights) or (weights != weights[0]).any():
            continue
        for child in own.children:
            inner = found[child]
            if inner is not None and len(inner.separator) == len(own.variables):
                order = [inner.variables.index(v) for v in own.variables]
                order += range(len(order), len(inner.variables))
                found[-1] = Clique(
                    tuple(inner.variables[i] for i in order),
                    inner.weights.transpose(order) * weights[0],
                    inner.possible.transpose(order),
                    [*inner.children, *(other for other in own.children if other != child)],
                    own.component,
                    inner.summed + 1,
                )
                found[child] = None
                break
    place = np.cumsum([own is not None for own in found]) - 1
    return [own._replace(children=place[own.children].tolist()) for own in found if own is not None]


def _written_out(cliques: list[Clique], offset: Array, graph: FactorGraph) -> Circuit:
    """The circuit of pruned cliques."""
    most, widest = graph.most_states, max(own.summed for own in cliques)
    heights: list[int] = []
    for own in cliques:
        heights.append(1 + max((heights[child] for child in own.children), default=0))
    # Cliques by height; of one height those of most children first, so that slots are prefixes.
    order = sorted(range(len(cliques)), key=lambda k: (heights[k], -len(cliques[k].children)))
    rank: dict[int, Numbers] = {}  # of each message: the number of the cell of every entry
    levels, weights, joint, states = [], [], [], []
    entries = cells = joints = 0
    for height in range(1, max(heights) + 1):
        members = [k for k in order if heights[k] == height]
        first_entry, first_cell = entries, cells
        starts, begins = [], []
        slots: list[list[Numbers]] = []
        counts: list[int] = []
        for k in members:
            own = cliques[k]
            kept = len(own.separator)
            summed = np.unravel_index(
                np.arange(math.prod(own.possible.shape[kept:])), own.possible.shape[kept:]
            )
            size = len(summed[0])
            flat = np.flatnonzero(own.possible)
            message, at = np.unique(flat // size, return_index=True)
            numbers = np.full(own.possible.size // size, -1)
            numbers[message] = cells + np.arange(len(message))
            rank[k] = numbers
            starts.append(entries - first_entry + at)
            begins.append(cells - first_cell)
            counts.append(len(message))
            weights.append(own.weights.reshape(-1)[flat])
            joint.append(joints + flat % size)
            joints += size
            table = np.full((size, widest), graph.variables * most)
            table[:, : own.summed] = np.stack(summed, 1) + most * np.array(own.variables[kept:])
            states.append(table)
            place = np.unravel_index(flat, own.possible.shape)
            where = dict(zip(own.variables, place, strict=True))
            largest = sorted(own.children, key=lambda child: -np.count_nonzero(rank[child] >= 0))
            for i, child in enumerate(largest):
                inner = cliques[child]
                cell = np.zeros(len(flat), dtype=np.int64)
                for v, length in zip(inner.separator, inner.possible.shape, strict=False):
                    cell = cell * length + where[v]
                while len(slots) <= i:
                    slots.append([])
                slots[i].append(rank[child][cell])
            entries += len(flat)
            cells += len(message)
        first_of = np.concatenate(starts)
        levels.append(
            CircuitLevel(
                slice(first_entry, entries),
                slice(first_cell, cells),
                first_of,
                np.diff(first_of, append=entries - first_entry),
                np.array(begins),
                np.array(counts),
                np.array([cliques[k].component for k in members]),
                tuple(_slot(np.concatenate(own)) for own in slots),
            )
        )
    every, each = np.concatenate(joint), np.concatenate(weights)
    different, weight = np.unique(each, return_inverse=True)
    pairs, leaf = np.unique(weight * joints + every, return_inverse=True)
    return Circuit(
        tuple(levels),
        leaf,
        different[pairs // joints],
        pairs % joints,
        np.concatenate(states),
        _sorted_by(every),
        offset,
        cells,
    )


def _slot(cells: Numbers) -> tuple[int, Numbers, Numbers, Numbers, Numbers]:
    return (len(cells), cells, *_sorted_by(cells))


def _sorted_by(keys: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The order that sorts the keys, where each of them begins in it, and the keys."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    return order, starts, found
