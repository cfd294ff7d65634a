"""Orders in which to sum variables out, by rules that are cheap to follow.

Finding the best order is NP-hard, so several rules are tried.  Greedy ones, by the size of tables
and by fill [Kjaerulff 1990], are best on irregular graphs that have no long direction.  Where a
graph has one (lattices, time series, pedigrees with many loci), an order that goes along it is far
better.  So min-fill is also followed with a preference for one end, along the Fiedler vector, which
orders variables as a spectral envelope reduction does [Barnard, Pothen and Simon 1995].
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

Neighbours = list[set[int]]
Key = tuple[float, ...]

HOPELESS = 40.0  # log2 of the table entries at which an order is given up
FILL_LIMIT = 5000  # variables beyond which min-fill, the slowest rule, is left out
RESTARTS = 24  # of min-fill, with other ties and preferences
FEW_RESTARTS = 7  # where splitting makes up for what an order lacks
PULLS = (0.5, -0.5, 0.25, -0.25, 1.0, -1.0, 0.0, 2.0, -2.0)  # along the graph, one a restart
MOST_ROUNDS = 64  # of independent sets
SMALL_TABLE = 12.0  # log2 of the entries that cost no more than the call that handles them
ITERATIONS = 10  # towards the Fiedler vector
SHIFT = 1e-9  # below its eigenvalue, on graphs of up to so many variables


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
    yield from _guided_orders(near, weights, RESTARTS, HOPELESS)
    yield _sweep(near, weights)


def orders_of_any_width(near: Neighbours, weights: list[float]) -> Iterator[list[int]]:
    """Greedy orders for those who split tables that are too wide."""
    yield cast("list[int]", greedy_order(near, weights, fill=False, seed=0, hopeless=math.inf))
    sweep = _sweep(near, weights)
    if not isinstance(sweep, TooWide):
        yield sweep
    for found in _guided_orders(near, weights, FEW_RESTARTS, math.inf):
        yield cast("list[int]", found)


def _guided_orders(
    near: Neighbours, weights: list[float], count: int, hopeless: float
) -> Iterator[list[int] | TooWide]:
    """Min-fill with different preferences for one end of the graph, and different ties."""
    if len(near) > FILL_LIMIT:
        return
    place = positions_along(near)
    front = math.sqrt(sum(map(bool, near)))  # about as many variables stand across the graph
    for seed in range(count):
        pull = PULLS[seed % len(PULLS)] * front
        preferred = (pull * place).tolist()
        yield greedy_order(
            near, weights, fill=True, seed=seed, hopeless=hopeless, preferred=preferred
        )


def greedy_order(
    near: Neighbours,
    weights: list[float],
    *,
    fill: bool,
    seed: int,
    hopeless: float = HOPELESS,
    preferred: list[float] | None = None,
) -> list[int] | TooWide:
    """Always the variable of least cost next, in the graph as it has become; ties at random.

    The cost is the size of the table or, with `fill`, the edges to add, and then the size.  The
    log of the fill is raised by what stands in `preferred`, where that is given.  At a table of
    more than 2^`hopeless` entries it is given up.
    """
    near = [set(others) for others in near]
    sizes = [weights[v] + sum(weights[u] for u in others) for v, others in enumerate(near)]
    states = [round(2.0**weight) for weight in weights]
    ties = random.Random(seed)
    noise = [ties.random() for _ in near]

    def key_of(v: int) -> Key:
        added: Key = ()
        if fill:
            edges = _fill(near, states, v)
            added = (edges,)
            if preferred is not None:
                added = (math.log(edges) + preferred[v] if edges else -math.inf,)
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
        own = near[other]
        own.discard(variable)
        sizes[other] -= weights[variable]
        missing = clique - own
        missing.discard(other)
        if missing:
            own |= missing
            sizes[other] += sum([weights[far] for far in missing])
            if wide:
                for far in missing:
                    changed |= own & near[far]
    changed.discard(variable)
    return changed


def _fill(near: Neighbours, states: list[int], variable: int) -> int:
    """The edges to add, each weighted by the entries of its table."""
    clique = list(near[variable])
    fill = 0
    for i, one in enumerate(clique):  # plain loops: sets of a few variables would cost more
        others = near[one]
        for other in clique[i + 1 :]:
            if other not in others:
                fill += states[one] * states[other]
    return fill


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


def positions_along(near: Neighbours) -> NDArray[np.float64]:
    """Where each variable stands between two far ends of the graph, from 0 to 1.

    Its rank in the Fiedler vector: that of the least nonzero eigenvalue of the normalised
    Laplacian, found by inverse iteration, in each connected part.
    """
    count = len(near)
    if not any(near):
        return np.zeros(count)
    degree = np.array([len(others) for others in near])
    row = np.repeat(np.arange(count), degree)
    column = np.array([u for others in near for u in sorted(others)], dtype=np.int64)
    root = np.sqrt(np.maximum(degree, 1.0))
    shape = (count, count)
    adjacent = csc_array((1.0 / (root[row] * root[column]), (row, column)), shape=shape)
    parts, part = connected_components(adjacent, directed=False)
    solver = splu(((1.0 + SHIFT) * eye_array(count) - adjacent).tocsc())
    norm = np.bincount(part, root**2, parts)
    found = np.zeros(count)
    for start in np.unique(part, return_index=True)[1].tolist():
        levels = _levels(near, _far_end(near, start))
        found[list(levels)] = list(levels.values())
    found *= root
    for _ in range(ITERATIONS):
        found -= root * (np.bincount(part, root * found, parts) / norm)[part]
        found = solver.solve(found)
        size = np.zeros(parts)
        np.maximum.at(size, part, np.abs(found))
        found /= np.maximum(size, 1e-300)[part]
    place = np.empty(count)
    # Rounded, so that what is equal by symmetry stands in the order of the variables.
    place[np.argsort(np.round(found / root, 6), kind="stable")] = np.arange(count) / max(1, count)
    return place


def _levels(near: Neighbours, start: int) -> dict[int, int]:
    """How many steps each variable of a connected part is away from the start."""
    seen, level, steps = {start: 0}, [start], 0
    while level:
        steps += 1
        level = sorted({u for v in level for u in near[v] if u not in seen})
        seen.update(dict.fromkeys(level, steps))
    return seen


def _far_end(near: Neighbours, start: int) -> int:
    """A variable as far from the start as any, with few neighbours."""
    seen = _levels(near, start)
    last = max(seen.values())
    return min((v for v in seen if seen[v] == last), key=lambda v: (len(near[v]), v))


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
