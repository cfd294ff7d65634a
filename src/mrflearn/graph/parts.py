"""Connected parts of a graph, and graphs split into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int, Int64, Shaped
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.errors import GraphError
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


def split_nodes(
    graph: FactorGraph, pieces: Sequence[Int64[Tensor, " f"]]
) -> tuple[FactorGraph, Int64[Tensor, " n"]]:
    """The graph whose components are the pieces, and the variable that each of its variables was.

    `pieces` numbers the piece of every factor, group by group.  Exact likelihood there is piecewise
    likelihood here [Sutton and McCallum 2009, section 3.2].
    """
    _check(graph, pieces)
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


def _check(graph: FactorGraph, pieces: Sequence[Int64[Tensor, " f"]]) -> None:
    found = [len(piece) for piece in pieces]
    wanted = [len(group) for group in graph.groups]
    if found != wanted:
        raise GraphError(f"pieces are numbered for {found} factors; the groups have {wanted}.")
    owner: dict[int, int] = {}
    for group, piece in zip(graph.groups, pieces, strict=True):
        for number, example in set(
            zip(piece.tolist(), graph.component_of(group).tolist(), strict=True)
        ):
            if owner.setdefault(number, example) != example:
                raise GraphError(
                    f"piece {number} has factors of examples {owner[number]} and {example}; "
                    "a piece lies within one example."
                )
