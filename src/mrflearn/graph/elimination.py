"""The plan of a junction tree: the tables that an elimination order leads to, and its steps.

Variables are labelled by the step that eliminates them, so the first axis of every table of step k
is k itself, and the message of step k has the other axes of its clique.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from mrflearn.graph.elimination_orders import (
    HOPELESS,
    Neighbours,
    TooWide,
    independent_sets,
    orders,
)
from mrflearn.graph.factor_graph import FactorGraph, Integers

# The cheapest way found to sum all variables out: an order, and the tree of tables it leads to.


CHEAP = 2**23  # table entries in all for which fewer levels may be had instead
QUICK_ORDER = 2**11  # table entries worth the time it takes to put one variable in order
AN_ORDER = 2**13  # the same by min-fill
GIVEN_UP = 2**26  # worth of orders after which all were too wide
LEVEL = 2**14  # table entries that take as long as the operations of one more level of the tree


@dataclass(frozen=True)
class EliminationStructure:
    """State counts and scopes, in a form that can be compared and looked up."""

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    def neighbours(self) -> Neighbours:
        """The variables that share a factor with each; none for variables of a single state."""
        near: Neighbours = [set() for _ in self.states]
        for scope in set(self.scopes):
            free = [variable for variable in scope if self.states[variable] > 1]
            for variable in free:
                near[variable].update(free)
        for variable, others in enumerate(near):
            others.discard(variable)
        return near


@dataclass(frozen=True)
class Elimination:
    """An order and the tree of tables it leads to; step k eliminates variable `order[k]`.

    `cliques[k]` names the variables of the table of step k in order of elimination, so its first
    is the one eliminated; the rest go on to the table of step `parent[k]` (-1: there are none).
    """

    order: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    parent: tuple[int, ...]
    total: int  # entries of all tables
    kept: int  # entries of all messages from table to table

    @property
    def width(self) -> int:
        """The most variables in one table, less one."""
        return max((len(clique) for clique in self.cliques), default=1) - 1

    @property
    def heights(self) -> list[int]:
        """1 for a step without children, else one more than the highest of its children."""
        heights = [1] * len(self.order)
        for k, parent in enumerate(self.parent):
            if parent >= 0:
                heights[parent] = max(heights[parent], heights[k] + 1)
        return heights

    @property
    def cost(self) -> int:
        """Entries to work on, and the levels to go through, in entries."""
        return self.total + LEVEL * max(self.heights, default=0)


def find_elimination(structure: EliminationStructure) -> Elimination | TooWide:
    """The elimination of fewest table entries that was found; the same one at every call."""
    near = structure.neighbours()
    weights = [math.log2(count) for count in structure.states]
    best: Elimination | None = None
    failures = []
    spent = 0
    for number, order in enumerate(orders(near, weights)):
        outcome = order if isinstance(order, TooWide) else follow(structure, near, order)
        if isinstance(outcome, TooWide):
            failures.append(outcome)
        elif best is None or outcome.total < best.total:
            best = outcome
        spent += (AN_ORDER if number else QUICK_ORDER) * len(near)
        # What a search takes should be less than what it can save.
        if spent >= (GIVEN_UP if best is None else best.total):
            break
    return best or min(failures, key=lambda failure: failure.log2_entries)


def lower(structure: EliminationStructure, found: Elimination) -> Elimination:
    """A cheap elimination, or another that has fewer levels for somewhat larger tables."""
    if found.total > CHEAP or found.cost - found.total <= found.total:
        return found
    near = structure.neighbours()
    order = independent_sets(near, [math.log2(count) for count in structure.states])
    other = None if order is None else follow(structure, near, order)
    if isinstance(other, Elimination) and other.total <= CHEAP and other.cost < found.cost:
        return other
    return found


def follow(
    structure: EliminationStructure, near: Neighbours, order: list[int]
) -> Elimination | TooWide:
    """The tables that an order leads to."""
    place = {variable: k for k, variable in enumerate(order)}
    states = structure.states
    waiting: list[set[int]] = [set() for _ in order]  # places that come in with messages
    cliques, parent = [], []
    total = kept = 0
    for k, variable in enumerate(order):
        later = waiting[k]
        later.update([place[other] for other in near[variable] if place[other] > k])
        later.discard(k)
        waiting[k] = set()
        clique = [variable, *[order[p] for p in sorted(later)]]
        message = math.prod([states[v] for v in clique[1:]])
        size = message * states[variable]
        if size > 2**HOPELESS:
            return TooWide(len(clique), math.log2(size))
        total, kept = total + size, kept + message
        cliques.append(tuple(clique))
        parent.append(min(later, default=-1))
        if later:
            waiting[parent[-1]] |= later
    return Elimination(tuple(order), tuple(cliques), tuple(parent), total, kept)


# Components of one structure, found so that they can be worked on together.


@dataclass(frozen=True, eq=False)
class Replicas:
    """n components whose variables and factors, numbered within each, are the same.

    `variables[i, m]` is the variable of the graph that is number m in the i-th of them, and
    `factors[g][i, k]` the factor of group g that is its k-th there; `structure.scopes` names the
    factors group after group.
    """

    structure: EliminationStructure
    components: Integers  # n
    variables: Integers  # n m
    factors: tuple[Integers, ...]  # n k each

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """(g, k) for every factor of the structure."""
        return [(g, k) for g, block in enumerate(self.factors) for k in range(block.shape[1])]

    def part(self, start: int, stop: int) -> Replicas:
        """Some of the components."""
        factors = tuple(numbers[start:stop] for numbers in self.factors)
        return Replicas(
            self.structure, self.components[start:stop], self.variables[start:stop], factors
        )


def find_replicas(graph: FactorGraph) -> list[Replicas]:
    """All components of a graph that have variables, those of equal structure together."""
    component = graph.component.cpu().numpy()
    members = _sorted_by(component, graph.components)
    within = np.empty(graph.variables, dtype=np.int64)
    for inside in members:
        within[inside] = np.arange(len(inside))
    states = graph.states.cpu().numpy()
    scopes = [group.scope.cpu().numpy() for group in graph.groups]
    owned = [_sorted_by(component[scope[:, 0]], graph.components) for scope in scopes]
    by_form: dict[tuple[bytes, ...], list[int]] = {}
    for number, inside in enumerate(members):
        parts = (
            within[scope[own[number]]].tobytes() for scope, own in zip(scopes, owned, strict=True)
        )
        if len(inside):
            by_form.setdefault((states[inside].tobytes(), *parts), []).append(number)

    found = []
    for numbers in by_form.values():
        rows = (scope[own[numbers[0]]] for scope, own in zip(scopes, owned, strict=True))
        structure = EliminationStructure(
            tuple(states[members[numbers[0]]].tolist()),
            tuple(tuple(scope) for block in rows for scope in within[block].tolist()),
        )
        variables, *factors = (np.stack([own[i] for i in numbers]) for own in (members, *owned))
        found.append(Replicas(structure, np.array(numbers), variables, tuple(factors)))
    return found


def _sorted_by(owner: Integers, count: int) -> list[Integers]:
    """For each owner the things it owns, ascending."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return np.split(order, ends[:-1])


# The steps of an elimination: which tables meet where, over which axes.


Axes = tuple[int, ...]

BLOCK = 2**18  # entries of a clique's table that are worked on at a time
PACK = 2**10  # entries of a product of factors that is always worth forming first


@dataclass(frozen=True)
class EliminationStep:
    """One clique: its axes and their sizes, the steps it hears from, the factors it takes in.

    Factors are packed: each pack is the product of some, over the axes it names.
    """

    axes: Axes
    sizes: tuple[int, ...]
    children: tuple[int, ...]
    packs: tuple[tuple[Axes, tuple[int, ...]], ...]


@dataclass(frozen=True)
class EliminationPlan:
    """Everything about a structure that does not depend on numbers.

    Where all its tables are made, `held` entries of messages and packs are in memory, and `work`
    entries that a step works on, of which there is one at a time.
    """

    found: Elimination  # of fewest entries, before levels were counted
    elimination: Elimination
    steps: tuple[EliminationStep, ...]
    factor_axes: tuple[Axes, ...]  # of each factor, without its single-state variables
    orders: tuple[tuple[int, ...], ...]  # how to permute a factor's own axes into ascending ones
    held: int
    work: int

    @property
    def entries(self) -> int:
        """Table entries in memory at the worst moment, for one copy."""
        return self.held + self.work


def find_plans(graph: FactorGraph) -> list[tuple[EliminationPlan | TooWide, Replicas]]:
    """All components, those of one structure together with its plan."""
    return [(make_plan(replicas.structure), replicas) for replicas in find_replicas(graph)]


def make_plan(structure: EliminationStructure) -> EliminationPlan | TooWide:
    """The steps of the best elimination found."""
    found = find_elimination(structure)
    if isinstance(found, TooWide):
        return found
    return plan_of(structure, lower(structure, found), found)


def plan_of(
    structure: EliminationStructure, elimination: Elimination, found: Elimination | None = None
) -> EliminationPlan:
    """The steps of an elimination, and that which it was made of."""
    place = {variable: k for k, variable in enumerate(elimination.order)}
    orders, factor_axes = [], []
    inside: list[list[int]] = [[] for _ in elimination.order]
    for factor, scope in enumerate(structure.scopes):
        orders.append(tuple(sorted(range(len(scope)), key=lambda i: place[scope[i]])))
        # Variables of a single state have no axis, unless all are such.
        free = sorted(place[v] for v in scope if structure.states[v] > 1)
        factor_axes.append(tuple(free or [min(place[v] for v in scope)]))
        inside[factor_axes[-1][0]].append(factor)
    children: list[list[int]] = [[] for _ in elimination.order]
    for k, parent in enumerate(elimination.parent):
        if parent >= 0:
            children[parent].append(k)
    steps, packed = [], 0
    for k, clique in enumerate(elimination.cliques):
        size = {place[variable]: structure.states[variable] for variable in clique}
        packs = _pack(k, inside[k], factor_axes, size)
        packed += sum(prod(size[axis] for axis in axes) for axes, _ in packs)
        steps.append(EliminationStep(tuple(size), tuple(size.values()), tuple(children[k]), packs))
    messages = [prod(step.sizes[1:]) for step in steps]
    # All messages are kept; at each step those of its children are there in both directions.
    twice = max((sum(messages[c] for c in own) for own in children), default=0)
    work = 2 * max(messages, default=0) + 4 * BLOCK
    held = elimination.kept + packed + twice
    inner = tuple(steps), tuple(factor_axes), tuple(orders)
    return EliminationPlan(found or elimination, elimination, *inner, held, work)


def _pack(
    k: int, factors: list[int], axes: list[Axes], size: dict[int, int]
) -> tuple[tuple[Axes, tuple[int, ...]], ...]:
    """Factors put together while their product stays small beside the clique's own table."""
    most = max(PACK, prod(size.values()) // 32)
    packs: list[tuple[set[int], list[int]]] = []
    for factor in sorted(factors, key=lambda i: axes[i]):
        union = packs[-1][0] | set(axes[factor]) if packs else set()
        if packs and prod(size[axis] for axis in union) <= most:
            packs[-1][0].update(union)
            packs[-1][1].append(factor)
        else:
            packs.append((set(axes[factor]), [factor]))
    if not packs:  # nothing is said of this variable: an empty product
        packs = [({k}, [])]
    return tuple((tuple(sorted(union)), tuple(members)) for union, members in packs)
