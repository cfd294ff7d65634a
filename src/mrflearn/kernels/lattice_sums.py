"""log Z and the probability of every node of a lattice, in log space.

Letters in shapes as in `lattice`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from mrflearn.kernels.lattice import Edges, Lattice, Numbers, Scores


def marginals(lattice: Lattice) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "n"]]:
    """log Z of each chain, and the probability of each node."""
    total = lattice.node.copy()  # of all paths that end in a node
    for t in range(1, len(lattice.sizes)):
        arriving, _ = _arrivals(total, lattice.edges(lattice.step(t)))
        total[lattice.bounds[t] : lattice.bounds[t + 1]] += arriving
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


def log_partition(lattice: Lattice) -> Float[np.ndarray, "b"]:
    """log Z of each chain."""
    total = lattice.node.copy()
    for t in range(1, len(lattice.sizes)):
        arriving, _ = _arrivals(total, lattice.edges(lattice.step(t)))
        total[lattice.bounds[t] : lattice.bounds[t + 1]] += arriving
    ending, begin, count = _ends(lattice)
    return _log_sums(total[ending], begin, count)[0]


def _arrivals(total: Scores, edges: Edges) -> tuple[Scores, Scores]:
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
