"""The n best paths through a lattice.  Letters in shapes as in `lattice`; m: paths kept."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from mrflearn.kernels.lattice import Lattice, Numbers, Scores


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
    result: Numbers = order[begin[:, None] + np.arange(count)]
    return result


def _trace(lattice: Lattice, best: Scores, came_from: Numbers) -> tuple[list[Numbers], Scores]:
    count = best.shape[1]
    scores = np.full((len(lattice.first), count), -np.inf)
    choice = np.zeros((0, count), dtype=np.int64)
    path: list[Numbers] = []
    for size in reversed(lattice.sizes):
        if len(choice):
            choice = came_from.reshape(-1)[choice]
        ending = slice(len(choice), size)
        own = [
            _best_between(best, *bounds)
            for bounds in zip(lattice.first[ending], lattice.last[ending], strict=True)
        ]
        if own:
            choice = np.concatenate([choice, np.stack(own)])
            scores[ending] = best.reshape(-1)[choice[ending]]
        path.append(choice // count)
    return path[::-1], scores


def _best_between(best: Scores, first: int, last: int) -> Int[np.ndarray, "m"]:
    """The best entries of the lists of some nodes, numbered node * m + place."""
    count = best.shape[1]
    order = np.argsort(-best[first:last].reshape(-1), kind="stable")[:count]
    result: Int[np.ndarray, "m"] = order + first * count
    return result
