"""Elimination orders and the plan of a junction tree.

Finding the best order is NP-hard, so several rules are tried.  Greedy ones, by the size of tables
and by fill [Kjaerulff 1990], are best on irregular graphs; on lattices a sweep from one corner to
the other is (a 20x20 grid: min-fill meets tables over 27 variables, a sweep over 21).

Variables are labelled by the step that eliminates them, so the first axis of every table of step k
is k itself, and the message of step k has the other axes of its clique.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import cast

import numpy as np

from mrflearn.graph.factor_graph import FactorGraph, Integers

# Orders in which to sum variables out, by rules that are cheap to follow.


Neighbours = list[set[int]]
Key = tuple[float, ...]

HOPELESS = 40.0  # log2 of the table entries at which an order is given up
FILL_LIMIT = 5000  # variables beyond which min-fill, the slowest rule, is left out
FILL_EFFORT = 6000  # variables to order by min-fill in all, over restarts with other ties
MOST_RESTARTS = 16
FEW_RESTARTS = 4  # where splitting makes up for what an order lacks
MOST_ROUNDS = 64  # of independent sets
SMALL_TABLE = 12.0  # log2 of the entries that cost no more than the call that handles them


@dataclass(frozen=True)
class TooWide:
    """Every order tried meets a table over `variables` variables, of 2^`log2_entries`, or more."""

    variables: int
    log2_entries: float


def orders(near: Neighbours, weights: list[float]) -> Iterator[list[int] | TooWide]:
    """Orders worth following, the quickest to find first; `weights` are log2 of state counts."""
    core = _densest_core(near)
    if core > HOPELESS:  # every variable has two states or more
        yield TooWide(core + 1, core + 1.0)
        return
    yield greedy_order(near, weights, fill=False, seed=0)
    yield _sweep(near, weights)
    if len(near) <= FILL_LIMIT:
        for seed in range(max(1, min(MOST_RESTARTS, FILL_EFFORT // max(1, len(near))))):
            yield greedy_order(near, weights, fill=True, seed=seed)


def greedy_order(
    near: Neighbours, weights: list[float], *, fill: bool, seed: int, hopeless: float = HOPELESS
) -> list[int] | TooWide:
    """Always the variable of least cost next, in the graph as it has become; ties at random.

    The cost is the size of the table or, with `fill`, the edges to add, and then the size.  At a
    table of more than 2^`most` entries it is given up.
    """
    near = [set(others) for others in near]
    sizes = [weights[v] + sum(weights[u] for u in others) for v, others in enumerate(near)]
    ties = random.Random(seed)
    noise = [ties.random() for _ in near]

    def key_of(v: int) -> Key:
        added = (_fill(near, weights, v),) if fill else ()
        return (*added, round(sizes[v], 6), noise[v], v)

    keys = [key_of(v) for v in range(len(near))]
    queued = list(keys)  # never above the true key: a cost that rose is looked up when it comes up
    heap = list(keys)
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        key = heapq.heappop(heap)
        variable = int(key[-1])
        if key is not queued[variable]:
            continue
        if key is not keys[variable]:
            queued[variable] = keys[variable]
            heapq.heappush(heap, keys[variable])
            continue
        order.append(variable)
        if sizes[variable] > hopeless:
            return TooWide(len(near[variable]) + 1, sizes[variable])
        for other in _join_neighbours(near, weights, sizes, variable, wide=fill):
            keys[other] = key_of(other)
            if keys[other] < queued[other]:
                queued[other] = keys[other]
                heapq.heappush(heap, keys[other])
    return order


def _join_neighbours(
    near: Neighbours, weights: list[float], sizes: list[float], variable: int, *, wide: bool
) -> set[int]:
    """Takes a variable out, joins its neighbours, and gives those whose cost may have changed.

    Fill (`wide`) changes also for whoever sees both ends of a new edge.  Sizes are kept up to date
    by what comes and goes: summed up again they would cost a hub its whole degree every time.
    """
    clique = near[variable]
    changed = set(clique)
    for other in clique:
        near[other].discard(variable)
        missing = clique - near[other]
        missing.discard(other)
        near[other] |= missing
        sizes[other] += sum(weights[far] for far in missing) - weights[variable]
        if wide:
            for far in missing:
                changed |= near[other] & near[far]
    changed.discard(variable)
    return changed


def _fill(near: Neighbours, weights: list[float], variable: int) -> float:
    """The edges to add, each weighted by the entries of its table."""
    clique = list(near[variable])
    fill = 0.0
    for i, one in enumerate(clique):  # plain loops: sets of a few variables would cost more
        others = near[one]
        for other in clique[i + 1 :]:
            if other not in others:
                fill += 2.0 ** (weights[one] + weights[other])
    return round(fill, 3)


def _sweep(near: Neighbours, weights: list[float]) -> list[int] | TooWide:
    """Across the graph from one end: the front variable that lets in the least goes next."""
    order: list[int] = []
    gone = [False] * len(near)
    for start in range(len(near)):
        if gone[start]:
            continue
        front = {_far_end(near, _far_end(near, start)): 0}  # variable: when it came in
        while front:
            newcomers = {v: [u for u in near[v] if not gone[u] and u not in front] for v in front}
            entering = {v: sum(weights[u] for u in own) for v, own in newcomers.items()}
            variable = min(front, key=lambda v: (round(entering[v] - weights[v], 6), front[v]))
            size = sum(weights[v] for v in front) + entering[variable]
            if size > HOPELESS:
                return TooWide(len(front) + len(newcomers[variable]), size)
            del front[variable]
            gone[variable] = True
            order.append(variable)
            for other in sorted(newcomers[variable]):
                front[other] = len(order)
    return order


def orders_of_any_width(near: Neighbours, weights: list[float]) -> Iterator[list[int]]:
    """Greedy orders for those who split tables that are too wide."""
    yield cast("list[int]", greedy_order(near, weights, fill=False, seed=0, hopeless=math.inf))
    sweep = _sweep(near, weights)
    if not isinstance(sweep, TooWide):
        yield sweep
    if len(near) <= FILL_LIMIT:
        for seed in range(FEW_RESTARTS):
            found = greedy_order(near, weights, fill=True, seed=seed, hopeless=math.inf)
            yield cast("list[int]", found)


def independent_sets(near: Neighbours, weights: list[float]) -> list[int] | None:
    """Many variables at a time that are no neighbours, so that the tree is low; None: too many.

    In each round all whose tables are small, or as small as any, are candidates.
    """
    near = [set(others) for others in near]
    sizes = [weights[v] + sum(weights[u] for u in others) for v, others in enumerate(near)]
    order: list[int] = []
    left = list(range(len(near)))
    for _ in range(MOST_ROUNDS):
        if not left:
            return order
        most = max(SMALL_TABLE, min(sizes[v] for v in left) + 1e-6)
        blocked: set[int] = set()
        chosen = []
        for v in sorted((v for v in left if sizes[v] <= most), key=lambda v: (sizes[v], v)):
            if v not in blocked:
                chosen.append(v)
                blocked |= near[v]
        for v in chosen:
            _join_neighbours(near, weights, sizes, v, wide=False)
        order += chosen
        gone = set(chosen)
        left = [v for v in left if v not in gone]
    return None


def _far_end(near: Neighbours, start: int) -> int:
    """A variable as far from the start as any, with few neighbours."""
    seen, level, last = {start}, [start], [start]
    while level:
        last = level
        level = sorted({u for v in level for u in near[v] if u not in seen})
        seen.update(level)
    return min(last, key=lambda v: (len(near[v]), v))


def _densest_core(near: Neighbours) -> int:
    """The least number of neighbours in the largest subgraph where it is beyond hope; 0: in none.

    The width is no less.  Who has fewer neighbours is in no such subgraph, and leaves it smaller.
    """
    core = set(range(len(near)))
    while core:
        degree = {v: len(near[v] & core) for v in core}
        if min(degree.values()) > HOPELESS:
            return min(degree.values())
        core = {v for v in core if degree[v] > HOPELESS}
    return 0


# The cheapest way found to sum all variables out: an order, and the tree of tables it leads to.


CHEAP = 2**23  # table entries in all that are not worth a search for fewer
TRIFLING = 2**17  # not even worth a second order, which takes milliseconds
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
    tried = []
    for order in orders(near, weights):
        tried.append(order)
        outcome = order if isinstance(order, TooWide) else follow(structure, near, order)
        if isinstance(outcome, TooWide):
            failures.append(outcome)
        elif best is None or outcome.total < best.total:
            best = outcome
        if best is not None and best.total <= (TRIFLING if len(tried) < 2 else CHEAP):
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
    waiting: list[set[int]] = [set() for _ in order]  # places that come in with messages
    cliques, parent = [], []
    total = kept = 0
    for k, variable in enumerate(order):
        later = waiting[k]
        later.update(place[other] for other in near[variable] if place[other] > k)
        later.discard(k)
        waiting[k] = set()
        clique = [variable, *(order[p] for p in sorted(later))]
        message = math.prod(structure.states[v] for v in clique[1:])
        size = message * structure.states[variable]
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
