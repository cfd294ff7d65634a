"""Orders in which to sum variables out, by rules that are cheap to follow.

Finding the best order is NP-hard, so several rules are tried.  Greedy ones, by the size of tables
and by fill [Kjaerulff 1990], are best on irregular graphs; on lattices a sweep from one corner to
the other is (a 20x20 grid: min-fill meets tables over 27 variables, a sweep over 21).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass

Neighbours = list[set[int]]
Key = tuple[float, ...]

HOPELESS = 40.0  # log2 of the table entries at which an order is given up
FILL_LIMIT = 5000  # variables beyond which min-fill, the slowest rule, is left out
FILL_EFFORT = 6000  # variables to order by min-fill in all, over restarts with other ties
MOST_RESTARTS = 16


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
    yield _greedy(near, weights, fill=False, seed=0)
    yield _sweep(near, weights)
    if len(near) <= FILL_LIMIT:
        for seed in range(max(1, min(MOST_RESTARTS, FILL_EFFORT // max(1, len(near))))):
            yield _greedy(near, weights, fill=True, seed=seed)


def _greedy(
    near: Neighbours, weights: list[float], *, fill: bool, seed: int
) -> list[int] | TooWide:
    """Always the variable of least cost next, in the graph as it has become; ties at random.

    The cost is the size of the table or, with `fill`, the edges to add, and then the size.
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
        if sizes[variable] > HOPELESS:
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
    by what comes and goes: summed up anew they would cost a hub its whole degree every time.
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
    for i, one in enumerate(clique):
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
    """A k such that some subgraph has k neighbours for every variable, so that width >= k.

    The largest there is (the degeneracy, by smallest degree last [Matula and Beck 1983]), or the
    first found beyond hope.
    """
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
        if core > HOPELESS:  # more would not matter, and dense graphs have many edges to go
            break
        for other in near[variable]:
            near[other].discard(variable)
            heapq.heappush(heap, (len(near[other]), other))
    return core
