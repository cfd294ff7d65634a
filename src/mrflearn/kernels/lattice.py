"""Chains whose positions have few states each, and not the same ones: the record, and Viterbi.

A chain over all states costs their number squared a position, or cubed where states are pairs; a
lattice costs what is there.  Nodes are numbered step by step, in each step the longest chain
first (as `chain_steps` lays them out), and the nodes of one position stand together.

Letters in shapes: b: chains, longest first; n: nodes; e: edges; k: some nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

Numbers: TypeAlias = Int[np.ndarray, "_"]
Scores: TypeAlias = Float[np.ndarray, "_"]


class Edges(NamedTuple):
    """The edges into some nodes; those into one node stand together, from its `begin` on."""

    source: Int[np.ndarray, "e"]
    score: Float[np.ndarray, "e"]
    begin: Int[np.ndarray, "k"]
    degree: Int[np.ndarray, "k"]


@final
@dataclass(frozen=True, eq=False)
class Lattice:
    """Scores of nodes, and a function that gives the edges into nodes of one step.

    Step t has `sizes[t]` chains and the nodes from `bounds[t]` to `bounds[t + 1]`; chain i ends in
    one of the nodes from `first[i]` to `last[i]`.  Every node after step 0 has edges, which are
    made when they are needed: all of them at once would fill the memory.
    """

    node: Float[np.ndarray, "n"]
    edges: Callable[[Int[np.ndarray, "k"]], Edges]
    sizes: tuple[int, ...]
    bounds: tuple[int, ...]
    first: Int[np.ndarray, "b"]
    last: Int[np.ndarray, "b"]

    def step(self, t: int) -> Int[np.ndarray, "k"]:
        """The nodes of a step."""
        return np.arange(self.bounds[t], self.bounds[t + 1])


def viterbi(lattice: Lattice) -> list[Int[np.ndarray, "_"]]:
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
    result: Numbers = begin + values[place].argmax(axis=1)
    return result
