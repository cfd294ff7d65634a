"""Lattices and other regular graphs, built without a loop over variables.

All are pairwise graphs with the groups "unary" and "pairwise"; see `pairwise` for `tied`.
"""

from __future__ import annotations

from math import prod

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.execution.memory import require_memory
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.pairwise import States, pairwise, state_counts

MOST_VARIABLES = 10**9
BYTES_A_PAIR = 64  # of a graph: scope, table and multiplicity, and the scope again on the way


def grid(rows: int, columns: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """A grid, numbered row by row; edges go node by node, to the right first, then down."""
    return _lattice((rows, columns), states, wrap=False, tied=tied)


def torus(rows: int, columns: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """A grid whose last row and column lead on to the first; edges in the order of `grid`.

    A side of one or two nodes is not wrapped: it would join a node to itself or a pair twice.
    """
    return _lattice((rows, columns), states, wrap=True, tied=tied)


def cube(x: int, y: int, z: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """A lattice in three dimensions; node (i, j, k) has the number (i * y + j) * z + k.

    Edges go node by node, to the neighbour along z first, then y, then x.
    """
    return _lattice((x, y, z), states, wrap=False, tied=tied)


def chimera(m: int, n: int, t: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """Chimera C(m, n, t): m rows of n cells, each a complete bipartite graph of t and t nodes.

    Node k of side u in cell (i, j) has the number ((i * n + j) * 2 + u) * t + k.  Side 0 is joined
    to the same node of the cell below, side 1 to that of the cell to the right.  Edges are sorted.
    """
    _insist_positive(m, n, t)
    number = torch.arange(m * n * 2 * t).reshape(m, n, 2, t)
    left, right = number[:, :, 0, :, None], number[:, :, 1, None, :]
    inside = torch.stack(torch.broadcast_tensors(left, right), dim=-1)
    below = torch.stack([number[:-1, :, 0], number[1:, :, 0]], dim=-1)
    beside = torch.stack([number[:, :-1, 1], number[:, 1:, 1]], dim=-1)
    edges = torch.cat([part.reshape(-1, 2) for part in (inside, below, beside)])
    order = (edges[:, 0] * number.numel() + edges[:, 1]).argsort()
    return pairwise(state_counts(states, number.numel()), edges[order], tied=tied)


def complete(n: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """Every pair of n variables is joined; edges (i, j) with i < j, sorted."""
    _insist_positive(n)
    require_memory(
        BYTES_A_PAIR * (n * (n - 1) // 2),
        f"a complete graph of {n:,} variables",
        "Name a graph with fewer edges, or use fewer variables.",
    )
    edges = torch.triu_indices(n, n, offset=1).t().contiguous()
    return pairwise(state_counts(states, n), edges, tied=tied)


def _lattice(shape: tuple[int, ...], states: States, *, wrap: bool, tied: bool) -> FactorGraph:
    _insist_positive(*shape)
    number = torch.arange(torch.Size(shape).numel()).reshape(shape)
    edges = _lattice_edges(number, wrap)
    return pairwise(state_counts(states, number.numel()), edges, tied=tied)


def _lattice_edges(number: Int[Tensor, "*shape"], wrap: bool) -> Int[Tensor, "e 2"]:
    heads, inside = [], []
    for axis in reversed(range(number.ndim)):
        side = number.shape[axis]
        heads.append(number.roll(-1, dims=axis))
        place = torch.arange(side).reshape([-1 if k == axis else 1 for k in range(number.ndim)])
        leads_on = torch.ones_like(place) if wrap and side > 2 else place < side - 1
        inside.append(leads_on.bool().expand(number.shape))
    head, keep = torch.stack(heads, dim=-1), torch.stack(inside, dim=-1)
    tail = number.unsqueeze(-1).expand_as(head)
    return torch.stack([tail[keep], head[keep]], dim=-1)


def _insist_positive(*sizes: int) -> None:
    seen = " x ".join(map(str, sizes))
    if min(sizes) < 1:
        raise GraphError(f"a graph of size {seen}: every size must be at least 1.")
    if prod(sizes) > MOST_VARIABLES:
        raise GraphError(f"a graph of size {seen}: more than {MOST_VARIABLES:,} nodes, too many.")
