"""Factor graphs of common shapes: lattices, chains, complete and pairwise graphs, text.

All are pairwise graphs with the groups "unary" and "pairwise"; see `pairwise` for `tied`.

Groups are untied unless `tied`: then all factors of a group read its table 0, as in a CRF without
observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import DataError, GraphError
from mrflearn.execution.resources import require_memory
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.io.files import Lines, PathLike

# A pairwise graph from its edges: one unary factor a variable, one pairwise factor an edge.


States = int | Sequence[int] | Int[Tensor, " v"]


def pairwise(
    states: Int[Tensor, " v"], edges: Int[Tensor, "e 2"], *, tied: bool = False
) -> FactorGraph:
    """A graph with the groups "unary" and "pairwise", in the order of variables and of edges.

    `tied`: all factors of a group read table 0; else each has a table of its own.  Variables with
    unequal state counts give a group for each shape, such as "unary 3" and "pairwise 3x2".
    """
    return FactorGraph(states, _pairwise_groups(states, edges, tied))


def _pairwise_groups(
    states: Int[Tensor, " v"], edges: Int[Tensor, "e 2"], tied: bool
) -> tuple[FactorGroup, ...]:
    singles = torch.arange(len(states), device=states.device).unsqueeze(1)
    return _groups("unary", states, singles, tied) + _groups("pairwise", states, edges, tied)


def state_counts(states: States, variables: int) -> Int[Tensor, " v"]:
    """One state count a variable, from a number for all of them or from a list."""
    if isinstance(states, int):
        return torch.full((variables,), states, dtype=torch.int64)
    counts = torch.as_tensor(states, dtype=torch.int64)
    if counts.shape != (variables,):
        raise GraphError(
            f"{len(counts)} state counts were given for {variables} variables. Give one number for "
            "all, or one for each variable."
        )
    return counts


def _groups(
    name: str, states: Int[Tensor, " v"], scope: Int[Tensor, "f a"], tied: bool
) -> tuple[FactorGroup, ...]:
    make = FactorGroup.tied if tied else FactorGroup
    if not len(scope) or bool((states[scope] == states[scope[0]]).all()):
        return (make(name, scope),)
    shapes, member = torch.unique(states[scope], dim=0, return_inverse=True)
    labels = ["x".join(map(str, shape)) for shape in shapes.tolist()]
    return tuple(make(f"{name} {label}", scope[member == i]) for i, label in enumerate(labels))


# Lattices and other regular graphs, built without a loop over variables.


MOST_VARIABLES = 10**9
BYTES_A_PAIR = 64  # of a graph: scope and table, and the scope again on the way


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
    number = torch.arange(prod(shape)).reshape(shape)
    heads, inside = [], []
    for axis, side in reversed(list(enumerate(shape))):
        heads.append(number.roll(-1, dims=axis))
        inside.append(torch.ones_like(number, dtype=torch.bool))
        if not wrap or side <= 2:
            inside[-1].select(axis, -1).fill_(False)
    head, keep = torch.stack(heads, dim=-1), torch.stack(inside, dim=-1)
    edges = torch.stack([number.unsqueeze(-1).expand_as(head)[keep], head[keep]], dim=-1)
    return pairwise(state_counts(states, number.numel()), edges, tied=tied)


def _insist_positive(*sizes: int) -> None:
    seen = " x ".join(map(str, sizes))
    if min(sizes) < 1:
        raise GraphError(f"a graph of size {seen}: every size must be at least 1.")
    if prod(sizes) > MOST_VARIABLES:
        raise GraphError(f"a graph of size {seen}: more than {MOST_VARIABLES:,} nodes, too many.")


# Chains and what grows out of them: batches, factorial chains, skip chains.


def chain(length: int, states: States = 2, *, tied: bool = False) -> FactorGraph:
    """One sequence; groups "unary" and "pairwise" (position t to t + 1)."""
    return chains([length], states, tied=tied)


def chains(
    lengths: Sequence[int] | Int[Tensor, " c"], states: States = 2, *, tied: bool = False
) -> FactorGraph:
    """A batch of sequences, one component each; groups as in `chain`."""
    counts = torch.as_tensor(lengths, dtype=torch.int64).cpu()
    if counts.ndim != 1 or (len(counts) and int(counts.min()) < 0):
        raise GraphError(f"lengths must be a list of numbers from 0 on, not {counts.tolist()}.")
    component = torch.repeat_interleave(torch.arange(len(counts)), counts)
    within = (component[1:] == component[:-1]).nonzero().squeeze(1)
    numbers = state_counts(states, len(component))
    groups = _pairwise_groups(numbers, torch.stack([within, within + 1], dim=1), tied)
    return FactorGraph(numbers, groups, component, len(counts))


def check_coupled(pairs: Iterable[tuple[int, int]], layers: int) -> None:
    """Raises `GraphError` for a pair that is not of two different layers, numbered from 0."""
    for i, j in pairs:
        if i == j or not (0 <= i < layers and 0 <= j < layers):
            raise GraphError(
                f"layers {i} and {j} cannot be coupled: name two of the {layers} layers "
                f"(0 to {layers - 1})."
            )


# Graphs from networkx, from edge files and from text.


MOST_UNNAMED = 10_000_000  # variables of a file that alone says how many there are
LONGEST_NUMBER = 9  # digits of a variable's number in a file
FORMS = (
    "grid:ROWSxCOLUMNS, torus:ROWSxCOLUMNS, cube:XxYxZ, chimera:M,N,T, "
    "chain:LENGTH, complete:N or edges:FILE"
)


def from_networkx(
    graph: Any, states: States = 2, *, tied: bool = False
) -> tuple[FactorGraph, tuple[Any, ...]]:
    """A pairwise graph and the names of its variables, in networkx's own orders.

    A node with an attribute `states` has that many; the others have as many as the argument says,
    a number for all or one a node.
    """
    if graph.is_directed() or graph.is_multigraph():
        raise GraphError("a field has no directed or parallel edges. Try networkx.Graph(graph).")
    number = {name: i for i, name in enumerate(graph.nodes)}
    counts = state_counts(states, len(number)).clone()
    for name, own in graph.nodes(data="states"):
        if own is not None:
            counts[number[name]] = int(own)
    edges = torch.tensor([(number[a], number[b]) for a, b in graph.edges], dtype=torch.int64)
    return pairwise(counts, edges.reshape(-1, 2), tied=tied), tuple(number)


def from_edge_file(
    path: PathLike, states: States = 2, *, variables: int | None = None, tied: bool = False
) -> FactorGraph:
    """A pairwise graph from lines of two variable numbers (from 0, blank or comma between).

    Text after `#` is ignored.  Without `variables` there are as many as the largest number needs.
    """
    edges: dict[frozenset[int], list[int]] = {}
    with Lines(path) as lines:
        for text in lines:
            if words := text.partition("#")[0].replace(",", " ").split():
                edge = _edge(words, variables)
                if frozenset(edge) in edges:
                    raise DataError(f"the edge {edge[0]} {edge[1]} was named before.")
                edges[frozenset(edge)] = edge
    count = variables or 1 + max((max(edge) for edge in edges), default=-1)
    if not count:
        raise DataError("there is no edge in this file.", path=path)
    if variables is None and count > MOST_UNNAMED:
        raise DataError(
            f"a variable has the number {count - 1}; files that name more than {MOST_UNNAMED:,} "
            "variables are read only where variables=... says how many there are.",
            path=path,
        )
    scope = torch.tensor(list(edges.values()), dtype=torch.int64).reshape(-1, 2)
    return pairwise(state_counts(states, count), scope, tied=tied)


def graph_from_text(
    text: str, states: States = 2, *, variables: int | None = None, tied: bool = False
) -> FactorGraph:
    """The graph that a short text names, such as `grid:4x4`, `chimera:3,3,3` or `edges:FILE`.

    `variables`, where known (the columns of a sample table), must agree with the text; a plain
    `complete` takes its size from it.
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "edges" and rest:
        return from_edge_file(rest, states, variables=variables, tied=tied)
    if kind == "complete" and not rest and variables is not None:
        return complete(variables, states, tied=tied)
    if kind not in NAMED:
        raise GraphError(f"graph '{text}' is of no known kind. Write {FORMS}.")
    make, example = NAMED[kind]
    words, sides = re.split("[x,]", rest), len(re.split("[x,]", example))
    if len(words) != sides or not all(word.isascii() and word.isdigit() for word in words):
        raise GraphError(
            f"graph '{text}': {kind} takes {sides} whole number{'s' * (sides > 1)}, "
            f"as in '{kind}:{example}'."
        )
    numbers = [int(word) for word in words]
    # State counts of the columns need as many variables: these are counted first.
    several = variables is not None and not isinstance(states, int)
    built = make(*numbers, 2 if several else states, tied=tied)
    if variables is not None and built.variables != variables:
        raise GraphError(
            f"graph '{text}' has {built.variables} variables, but the data have {variables}. "
            "Does a column hold something else, or is a side of the graph wrong?"
        )
    return make(*numbers, states, tied=tied) if several else built


NAMED: dict[str, tuple[Callable[..., FactorGraph], str]] = {
    "grid": (grid, "4x4"),
    "torus": (torus, "4x4"),
    "cube": (cube, "4x4x4"),
    "chimera": (chimera, "3,3,3"),
    "complete": (complete, "10"),
    "chain": (chain, "10"),
}


def _edge(words: list[str], variables: int | None) -> list[int]:
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        found = " ".join(words)[:40]
        raise DataError(f"an edge is two variable numbers, counted from 0; found '{found}'.")
    if max(map(len, words)) > LONGEST_NUMBER:
        raise DataError(
            f"names variable {max(words, key=len)[:40]}; numbers count the variables from 0, and "
            "this is more than any memory holds. Is it an identifier?"
        )
    edge = [int(word) for word in words]
    if edge[0] == edge[1]:
        raise DataError(f"variable {edge[0]} cannot be joined to itself.")
    if variables is not None and max(edge) >= variables:
        raise DataError(
            f"names variable {max(edge)}, but there are {variables} (0 to {variables - 1}). "
            "Does this file count from 1?"
        )
    return edge
