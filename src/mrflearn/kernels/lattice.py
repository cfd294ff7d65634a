"""Lattices in which each position has its own few states: sums and best paths.

A chain over all states costs their number squared a position, or cubed where states are pairs; a
lattice costs what is there.  Nodes are numbered step by step, in each step the longest chain
first (as `Steps` packs them), and the nodes of one position stand together.

Letters in shapes: b: chains, longest first; n: nodes; e: edges; k: some nodes; m: paths kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

# Chains whose positions have few states each, and not the same ones: the record, and Viterbi.


Numbers: TypeAlias = Int[np.ndarray, " _"]
Scores: TypeAlias = Float[np.ndarray, " _"]


class LatticeEdges(NamedTuple):
    """The edges into some nodes; those into one node stand together, from its `begin` on."""

    source: Int[np.ndarray, " e"]
    score: Float[np.ndarray, " e"]
    begin: Int[np.ndarray, " k"]
    degree: Int[np.ndarray, " k"]


@final
@dataclass(frozen=True, eq=False)
class Lattice:
    """Scores of nodes, and a function that gives the edges into nodes of one step.

    Step t has `sizes[t]` chains and the nodes from `bounds[t]` to `bounds[t + 1]`; chain i ends in
    one of the nodes from `first[i]` to `last[i]`.  Every node after step 0 has edges, which are
    made when they are needed: all of them at once would fill the memory.
    """

    node: Float[np.ndarray, " n"]
    edges: Callable[[Int[np.ndarray, " k"]], LatticeEdges]
    sizes: tuple[int, ...]
    bounds: tuple[int, ...]
    first: Int[np.ndarray, " b"]
    last: Int[np.ndarray, " b"]

    def step(self, t: int) -> Int[np.ndarray, " k"]:
        """The nodes of a step."""
        return np.arange(self.bounds[t], self.bounds[t + 1])


def viterbi(lattice: Lattice) -> list[Int[np.ndarray, " _"]]:
    """For each step the node of a best path of each chain that reaches it."""
    best = lattice.node.copy()
    for t in range(1, len(lattice.sizes)):
        edges = lattice.edges(lattice.step(t))
        moved = best[edges.source] + edges.score
        best[lattice.bounds[t] : lattice.bounds[t + 1]] += np.maximum.reduceat(moved, edges.begin)
    path: list[Numbers] = []
    here = np.zeros(0, dtype=np.int64)
    for size in reversed(lattice.sizes):
        if len(here):
            # Where a path came from is worked out only for the nodes it visits, not kept for all.
            edges = lattice.edges(here)
            moved = best[edges.source] + edges.score
            here = edges.source[largest(moved, edges.begin, edges.degree)]
        first, last = (part[len(here) : size] for part in (lattice.first, lattice.last))
        here = np.concatenate([here, largest(best, first, last - first)])
        path.append(here)
    return path[::-1]


def largest(values: Scores, begin: Numbers, count: Numbers) -> Numbers:
    """The place of the first largest value in each run of `count` values from `begin` on."""
    if not len(begin):
        return begin
    offset = np.arange(count.max())
    place = begin[:, None] + np.minimum(offset, count[:, None] - 1)
    return np.asarray(begin + values[place].argmax(axis=1))


def n_best(
    lattice: Lattice, count: int
) -> tuple[list[Int[np.ndarray, "_ m"]], Float[np.ndarray, "b m"]]:
    """For each step the nodes of the `count` best paths, best first, and the paths' scores.

    Where a chain has fewer paths, the rest score -inf and their nodes mean nothing.
    """
    best = np.full((len(lattice.node), count), -np.inf)
    best[:, 0] = lattice.node
    came_from = np.zeros((len(lattice.node), count), dtype=np.int64)  # node * m + place in its list
    for t in range(1, len(lattice.sizes)):
        nodes = slice(lattice.bounds[t], lattice.bounds[t + 1])
        edges = lattice.edges(lattice.step(t))
        moved = best[edges.source] + edges.score[:, None]
        kept = _best_of_runs(moved, edges.degree)
        best[nodes] = moved.reshape(-1)[kept] + lattice.node[nodes, None]
        came_from[nodes] = edges.source[kept // count] * count + kept % count
    return _trace(lattice, best, came_from)


def _best_of_runs(values: Float[np.ndarray, "_ m"], rows: Numbers) -> Int[np.ndarray, "k m"]:
    """The m largest values in each run of rows, as places in the flat array."""
    count = values.shape[1]
    run = np.repeat(np.arange(len(rows)), rows * count)
    order = np.lexsort((-values.reshape(-1), run))
    begin = (np.cumsum(rows) - rows) * count
    return np.asarray(order[begin[:, None] + np.arange(count)])


def _trace(lattice: Lattice, best: Scores, came_from: Numbers) -> tuple[list[Numbers], Scores]:
    count = best.shape[1]
    scores = np.full((len(lattice.first), count), -np.inf)
    choice = np.zeros((0, count), dtype=np.int64)
    path: list[Numbers] = []
    for size in reversed(lattice.sizes):
        ending = slice(len(choice), size)
        choice = came_from.reshape(-1)[choice]
        begin, end = lattice.first[ending], lattice.last[ending]
        if len(begin):  # of chains that stand side by side
            kept = _best_of_runs(best[begin[0] : end[-1]], end - begin)
            choice = np.concatenate([choice, kept + begin[0] * count])
        scores[ending] = best.reshape(-1)[choice[ending]]
        path.append(choice // count)
    return path[::-1], scores


# log Z and the probability of every node of a lattice, in log space.


def marginals(lattice: Lattice) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " n"]]:
    """log Z of each chain, and the probability of each node."""
    total = _totals(lattice)
    ending, begin, count = _ends(lattice)
    log_partition, share = _log_sums(total[ending], begin, count)
    probability = np.zeros(len(total))
    probability[ending] = share
    for t in range(len(lattice.sizes) - 1, 0, -1):
        # A node's probability goes back to where its paths came from, each by its share.
        edges = lattice.edges(lattice.step(t))
        _, share = _arrivals(total, edges)
        here = probability[lattice.bounds[t] : lattice.bounds[t + 1]]
        share *= np.repeat(here, edges.degree)
        before = slice(lattice.bounds[t - 1], lattice.bounds[t])
        probability[before] += np.bincount(
            edges.source - before.start, weights=share, minlength=before.stop - before.start
        )
    return log_partition, probability


def log_partition(lattice: Lattice) -> Float[np.ndarray, " b"]:
    """log Z of each chain."""
    ending, begin, count = _ends(lattice)
    return _log_sums(_totals(lattice)[ending], begin, count)[0]


def _totals(lattice: Lattice) -> Float[np.ndarray, " n"]:
    """The log-sum over all paths that end in a node."""
    total = lattice.node.copy()
    for t in range(1, len(lattice.sizes)):
        arriving, _ = _arrivals(total, lattice.edges(lattice.step(t)))
        total[lattice.bounds[t] : lattice.bounds[t + 1]] += arriving
    return total


def _arrivals(total: Scores, edges: LatticeEdges) -> tuple[Scores, Scores]:
    return _log_sums(total[edges.source] + edges.score, edges.begin, edges.degree)


def _log_sums(values: Scores, begin: Numbers, count: Numbers) -> tuple[Scores, Scores]:
    """The log of the sum of exp over each run, and each value's share of it."""
    top = np.maximum.reduceat(values, begin)
    weight = np.exp(values - np.repeat(top, count))
    total = np.add.reduceat(weight, begin)
    return top + np.log(total), weight / np.repeat(total, count)


def _ends(lattice: Lattice) -> tuple[Numbers, Numbers, Numbers]:
    """The nodes that chains end in, chain by chain, with where each chain's begin."""
    count = lattice.last - lattice.first
    begin = np.cumsum(count) - count
    return np.repeat(lattice.first - begin, count) + np.arange(count.sum()), begin, count
