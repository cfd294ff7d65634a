"""Connected parts of a graph, and graphs split into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph, Integers


def sparse_graph(
    weights: Shaped[np.ndarray, " e"], first: Integers, second: Integers, nodes: int
) -> csr_array:
    """Weighted edges for `scipy.sparse.csgraph`; older versions of it take 32-bit indices alone."""
    ends = (first.astype(np.int32), second.astype(np.int32))
    return coo_array((weights, ends), (nodes, nodes)).tocsr()


def connected_parts(graph: FactorGraph) -> Int64[Tensor, " v"]:
    """The number of each variable's part; parts are numbered in the order of their first variables.

    Every factor joins its variables to one another, so a path through them is link enough.
    """
    scopes = (group.scope.cpu() for group in graph.groups)
    ends = (own[:, axis : axis + 2] for own in scopes for axis in range(own.shape[1] - 1))
    first, second = torch.cat([torch.zeros(0, 2, dtype=torch.int64), *ends]).T.numpy()
    links = sparse_graph(np.ones(len(first), dtype=bool), first, second, graph.variables)
    _, part = connected_components(links, directed=False)
    _, place, number = np.unique(part, return_index=True, return_inverse=True)
    order = place.argsort().argsort()
    return torch.from_numpy(order[number].astype(np.int64))


def split_nodes(
    graph: FactorGraph, pieces: Sequence[Int64[Tensor, " f"]]
) -> tuple[FactorGraph, Int64[Tensor, " n"]]:
    """The graph whose components are the pieces, and the variable that each of its variables was.

    `pieces` numbers the piece of every factor, group by group; each is within one example.  Exact
    likelihood there is piecewise likelihood here [Sutton and McCallum 2009, section 3.2].
    """
    size = max(graph.variables, 1)
    codes = [
        piece.unsqueeze(1) * size + group.scope
        for group, piece in zip(graph.groups, pieces, strict=True)
    ]
    empty = torch.zeros(0, dtype=torch.int64, device=graph.device)
    copies = torch.cat([empty, *(code.flatten() for code in codes)]).unique()
    origin = copies % size
    groups = tuple(
        replace(group, scope=torch.searchsorted(copies, code))
        for group, code in zip(graph.groups, codes, strict=True)
    )
    component = copies.div(size, rounding_mode="floor")
    return FactorGraph(graph.states[origin], groups, component), origin
