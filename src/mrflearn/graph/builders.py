"""Every graph builder under one name, and graphs from networkx, from edge files and from text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from mrflearn.errors import DataError, GraphError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.lattices import chimera, complete, cube, grid, torus
from mrflearn.graph.pairwise import States, pairwise, state_counts
from mrflearn.graph.sequences import chain, chains, factorial_chain, skip_chain
from mrflearn.io.files import PathLike, read_lines

__all__ = [
    "chain",
    "chains",
    "chimera",
    "complete",
    "cube",
    "factorial_chain",
    "from_edge_file",
    "from_networkx",
    "graph_from_text",
    "grid",
    "skip_chain",
    "torus",
]

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
        raise GraphError(
            "the graph is directed or has parallel edges; a Markov random field has neither. "
            "Try networkx.Graph(graph)."
        )
    names = tuple(graph.nodes)
    number = {name: i for i, name in enumerate(names)}
    usual = state_counts(states, len(names)).tolist()
    nodes = graph.nodes(data=True)
    counts = [int(own.get("states", n)) for n, (_, own) in zip(usual, nodes, strict=True)]
    edges = torch.tensor([(number[a], number[b]) for a, b in graph.edges], dtype=torch.int64)
    built = pairwise(torch.tensor(counts, dtype=torch.int64), edges.reshape(-1, 2), tied=tied)
    return built, names


def from_edge_file(
    path: PathLike, states: States = 2, *, variables: int | None = None, tied: bool = False
) -> FactorGraph:
    """A pairwise graph from lines of two variable numbers (from 0, blank or comma between).

    Text after `#` is ignored.  Without `variables` there are as many as the largest number needs.
    """
    edges: list[tuple[int, int]] = []
    seen: set[frozenset[int]] = set()
    for line, text in read_lines(path):
        words = text.partition("#")[0].replace(",", " ").split()
        if words:
            edge = _edge(words, variables, path, line)
            if frozenset(edge) in seen:
                raise DataError(
                    f"the edge {edge[0]} {edge[1]} was named before.", path=path, line=line
                )
            seen.add(frozenset(edge))
            edges.append(edge)
    count = variables or 1 + max((max(edge) for edge in edges), default=-1)
    if not count:
        raise DataError("there is no edge in this file.", path=path)
    if variables is None and count > MOST_UNNAMED:
        raise DataError(
            f"a variable has the number {count - 1}; files that name more than {MOST_UNNAMED:,} "
            "are read where variables=... says how many there are.",
            path=path,
        )
    scope = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
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
    build = _named(kind, rest, text)
    # State counts of the columns can only be laid on as many variables: these are counted first.
    built = build(states if variables is None or isinstance(states, int) else 2, tied)
    if variables is not None and built.variables != variables:
        raise GraphError(
            f"graph '{text}' has {built.variables} variables, but the data have {variables}. "
            "Does a column hold something else, or is a side of the graph wrong?"
        )
    return built if isinstance(states, int) or variables is None else build(states, tied)


def _named(kind: str, rest: str, text: str) -> Callable[[States, bool], FactorGraph]:
    sides = {"grid": 2, "torus": 2, "cube": 3, "chimera": 3, "complete": 1, "chain": 1}
    if kind not in sides:
        raise GraphError(f"graph '{text}' is of no known kind. Write {FORMS}.")
    numbers = [int(word) for word in re.split("[x,]", rest) if word.isascii() and word.isdigit()]
    if len(numbers) != sides[kind] or len(re.split("[x,]", rest)) != sides[kind]:
        _complain_of_sizes(kind, sides[kind], text)
    builders: dict[str, Callable[..., FactorGraph]] = {
        "grid": grid,
        "torus": torus,
        "cube": cube,
        "chimera": chimera,
        "complete": complete,
        "chain": chain,
    }
    return lambda states, tied: builders[kind](*numbers, states, tied=tied)


def _edge(words: list[str], variables: int | None, path: PathLike, line: int) -> tuple[int, int]:
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        found = " ".join(words)
        problem = f"an edge is two variable numbers, counted from 0; found '{found[:40]}'."
        raise DataError(problem, path=path, line=line)
    if max(map(len, words)) > LONGEST_NUMBER:
        longest = max(words, key=len)
        raise DataError(
            f"names variable {longest[:40]}; numbers count the variables from 0, and this is more "
            "than any memory holds. Is it an identifier?",
            path=path,
            line=line,
        )
    a, b = int(words[0]), int(words[1])
    if a == b:
        raise DataError(f"variable {a} cannot be joined to itself.", path=path, line=line)
    if variables is not None and max(a, b) >= variables:
        raise DataError(
            f"names variable {max(a, b)}, but there are {variables} (0 to {variables - 1}). "
            "Does this file count from 1?",
            path=path,
            line=line,
        )
    return a, b


def _complain_of_sizes(kind: str, sides: int, text: str) -> NoReturn:
    example = {1: "10", 2: "4x4", 3: "3,3,3" if kind == "chimera" else "4x4x4"}[sides]
    raise GraphError(
        f"graph '{text}': {kind} takes {sides} whole number{'s' * (sides > 1)}, "
        f"as in '{kind}:{example}'."
    )
