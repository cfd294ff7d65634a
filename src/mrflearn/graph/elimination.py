"""Elimination orders: in which order to sum variables out, and how large the tables become.

Finding the best order is NP-hard, so several cheap rules are tried and the cheapest outcome kept.
Greedy rules are best on irregular graphs; on lattices a sweep from one corner to the other is (a
20x20 grid: min-fill meets tables over 27 variables, a sweep over 21).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

Neighbours = list[set[int]]
Key = tuple[float, ...]

HOPELESS = 40.0  # log2 of the table entries at which an order is given up
CHEAP = 2**23  # table entries in all that are not worth a search for fewer
FILL_LIMIT = 5000  # variables beyond which min-fill, the slowest rule, is left out
FILL_EFFORT = 6000  # variables to order by min-fill in all, over restarts with other ties
MOST_RESTARTS = 16


@dataclass(frozen=True)
class Structure:
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
    largest: int  # entries of the largest table
    total: int  # entries of all tables
    kept: int  # entries of all messages from table to table

    @property
    def width(self) -> int:
        """The most variables in one table, less one."""
        return max((len(clique) for clique in self.cliques), default=1) - 1


@dataclass(frozen=True)
class TooWide:
    """Every order tried meets a table over `variables` variables, of 2^`log2_entries`, or more."""

    variables: int
    log2_entries: float


@lru_cache(maxsize=64)
def find_elimination(structure: Structure) -> Elimination | TooWide:
    """The elimination of fewest table entries that was found; the same one at every call."""
    near = structure.neighbours()
    weights = [math.log2(count) for count in structure.states]
    best: Elimination | None = None
    failures = []
    for order in _orders(near, weights):
        outcome = order if isinstance(order, TooWide) else _follow(structure, near, order)
        if isinstance(outcome, TooWide):
            failures.append(outcome)
        elif best is None or outcome.total < best.total:
            best = outcome
        if best is not None and best.total <= CHEAP:
            break
    return best or min(failures, key=lambda failure: failure.log2_entries)


def _orders(near: Neighbours, weights: list[float]) -> Iterator[list[int] | TooWide]:
    """Orders worth following, the quickest to find first."""
    core = _densest_core(near)
    if core > HOPELESS:  # every variable has two states or more
        yield TooWide(core + 1, core + 1.0)
        return
    yield _greedy(near, weights, _by_weight, seed=0)
    yield _sweep(near, weights)
    if len(near) <= FILL_LIMIT:
        for seed in range(max(1, min(MOST_RESTARTS, FILL_EFFORT // max(1, len(near))))):
            yield _greedy(near, weights, _by_fill, seed=seed)


def _follow(structure: Structure, near: Neighbours, order: list[int]) -> Elimination | TooWide:
    """The tables that an order leads to."""
    place = {variable: k for k, variable in enumerate(order)}
    waiting: list[set[int]] = [set() for _ in order]  # places that come in with messages
    cliques, parent = [], []
    largest = total = kept = 0
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
        largest, total, kept = max(largest, size), total + size, kept + message
        cliques.append(tuple(clique))
        parent.append(min(later, default=-1))
        if later:
            waiting[parent[-1]] |= later
    return Elimination(tuple(order), tuple(cliques), tuple(parent), largest, total, kept)


def _greedy(
    near: Neighbours,
    weights: list[float],
    cost: Callable[[Neighbours, list[float], int], Key],
    *,
    seed: int,
) -> list[int] | TooWide:
    """Always the variable of least cost next, in the graph as it has become; ties at random."""
    near = [set(others) for others in near]
    ties = random.Random(seed)
    noise = [ties.random() for _ in near]
    keys = [(*cost(near, weights, v), noise[v], v) for v in range(len(near))]
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
        if (size := _table_size(near, weights, variable)) > HOPELESS:
            return TooWide(len(near[variable]) + 1, size)
        for other in _join_neighbours(near, variable, wide=cost is _by_fill):
            keys[other] = (*cost(near, weights, other), noise[other], other)
            if keys[other] < queued[other]:
                queued[other] = keys[other]
                heapq.heappush(heap, keys[other])
    return order


def _join_neighbours(near: Neighbours, variable: int, *, wide: bool) -> set[int]:
    """Takes a variable out, joins its neighbours, and gives those whose cost may have changed.

    Fill (`wide`) changes also for whoever sees both ends of a new edge.
    """
    clique = near[variable]
    changed = set(clique)
    for other in clique:
        near[other].discard(variable)
        missing = clique - near[other]
        missing.discard(other)
        near[other] |= missing
        if wide:
            for far in missing:
                changed |= near[other] & near[far]
    changed.discard(variable)
    return changed


def _table_size(near: Neighbours, weights: list[float], variable: int) -> float:
    return weights[variable] + sum(map(weights.__getitem__, near[variable]))


def _by_weight(near: Neighbours, weights: list[float], variable: int) -> Key:
    """The size of the table."""
    return (round(_table_size(near, weights, variable), 6),)


def _by_fill(near: Neighbours, weights: list[float], variable: int) -> Key:
    """The edges to add, each weighted by the entries of its table; then the size of the table."""
    clique = list(near[variable])
    fill = 0.0
    for i, one in enumerate(clique):
        others = near[one]
        for other in clique[i + 1 :]:
            if other not in others:
                fill += 2.0 ** (weights[one] + weights[other])
    return (round(fill, 3), *_by_weight(near, weights, variable))


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
            variable = min(
                front,
                key=lambda v: (
                    round(sum(weights[u] for u in newcomers[v]) - weights[v], 6),
                    front[v],
                ),
            )
            size = sum(weights[v] for v in front) + sum(weights[u] for u in newcomers[variable])
            if size > HOPELESS:
                return TooWide(len(front) + len(newcomers[variable]), size)
            del front[variable]
            gone[variable] = True
            order.append(variable)
            for other in sorted(newcomers[variable]):
                front[other] = len(order)
    return order


def _far_end(near: Neighbours, start: int) -> int:
    """A variable as far from the start as any, with few neighbours."""
    seen, level, last = {start}, [start], [start]
    while level:
        last = level
        level = sorted({u for v in level for u in near[v] if u not in seen})
        seen.update(level)
    return min(last, key=lambda v: (len(near[v]), v))


def _densest_core(near: Neighbours) -> int:
    """The largest k such that some subgraph has k neighbours for every variable: width >= k."""
    near = [set(others) for others in near]
    heap = [(len(others), v) for v, others in enumerate(near)]
    heapq.heapify(heap)
    core, gone = 0, [False] * len(near)
    while heap:
        degree, variable = heapq.heappop(heap)
        if gone[variable] or degree != len(near[variable]):
            continue
        gone[variable] = True
        core = max(core, degree)
        for other in near[variable]:
            near[other].discard(variable)
            heapq.heappush(heap, (len(near[other]), other))
    return core
