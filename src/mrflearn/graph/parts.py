"""Which variables are joined, directly or through others."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int, Int64, Shaped
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph


def sparse_graph(
    weights: Shaped[np.ndarray, " e"],
    first: Int[np.ndarray, " e"],
    second: Int[np.ndarray, " e"],
    nodes: int,
) -> csr_array:
    """Weighted edges for `scipy.sparse.csgraph`; older versions of it take 32-bit indices alone."""
    ends = (first.astype(np.int32), second.astype(np.int32))
    return coo_array((weights, ends), (nodes, nodes)).tocsr()


def connected_parts(graph: FactorGraph) -> Int64[Tensor, " v"]:
    """The number of each variable's part; parts are numbered in the order of their first variables.

    Every factor joins its variables to one another, so a path through them is link enough.
    """
    joined = [torch.zeros(0, 2, dtype=torch.int64)]
    for group in graph.groups:
        ends = [group.scope[:, axis : axis + 2] for axis in range(group.arity - 1)]
        joined.extend(own.cpu() for own in ends)
    first, second = torch.cat(joined).T.numpy()
    links = sparse_graph(np.ones(len(first), dtype=bool), first, second, graph.variables)
    _, part = connected_components(links, directed=False)
    _, place, number = np.unique(part, return_index=True, return_inverse=True)
    order = place.argsort().argsort()
    return torch.from_numpy(order[number].astype(np.int64))
