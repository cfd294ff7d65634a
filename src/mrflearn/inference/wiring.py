"""Where messages lie: index arrays that lay all states, and all messages, of a graph end to end.

Unary factors send no messages, as theirs never change: they are part of the variables' bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials


@dataclass(frozen=True, eq=False)
class Blocks:
    """How messages lie end to end: a block (states, factors) for every axis of every sender."""

    shapes: list[list[tuple[int, int]]]
    sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [states * factors for axes in self.shapes for states, factors in axes]
        object.__setattr__(self, "sizes", sizes)

    def split(self, entries: Tensor) -> list[list[Tensor]]:
        """Views of message entries, for every sender, for every axis."""
        pieces = iter(entries.split(self.sizes))
        return [[next(pieces).view(block) for block in axes] for axes in self.shapes]


@dataclass(frozen=True, eq=False)
class Wiring:
    """Index arrays of a graph, built once and shared by all sweeps.

    Messages lie group by group, in a group axis by axis, in an axis state by state; so the
    messages on one axis are a contiguous (s, f) block.  `place` says which state of which variable
    each entry is about, counted along all states of all variables.
    """

    graph: FactorGraph
    senders: tuple[int, ...]  # the groups that send messages
    blocks: Blocks
    place: Int[Tensor, "m"]

    @classmethod
    def of(cls, graph: FactorGraph) -> Wiring:
        """The wiring of a graph."""
        start = graph.states.cumsum(0) - graph.states
        senders = tuple(i for i, group in enumerate(graph.groups) if len(group) and group.arity > 1)
        shapes, place = [], [start.new_empty(0)]
        for group in (graph.groups[i] for i in senders):
            shapes.append([(states, len(group)) for states in graph.shape(group)])
            for axis, (states, _) in enumerate(shapes[-1]):
                state = torch.arange(states, device=graph.device).unsqueeze(1)
                place.append((start[group.scope[:, axis]] + state).reshape(-1))
        return cls(graph, senders, Blocks(shapes), torch.cat(place))

    def spread(self, per_factor: list[Float[Tensor, "f"]]) -> Float[Tensor, "m"]:
        """One number a factor (a vector for each sender), repeated at all its message entries."""
        rows = zip(per_factor, self.blocks.shapes, strict=True)
        spread = [values.repeat(sum(states for states, _ in axes)) for values, axes in rows]
        return torch.cat(spread) if spread else torch.empty(0, device=self.graph.device)

    def padded(self, flat: Float[Tensor, "n"], fill: float) -> Float[Tensor, "v s"]:
        """All states as one row a variable, `fill` beyond its own states."""
        legal = self.graph.legal()
        return flat.new_full(legal.shape, fill).masked_scatter_(legal, flat)

    def bias(self, potentials: Potentials) -> Float[Tensor, "n"]:
        """The sum of its unary factors' scores for every state of every variable."""
        graph = self.graph
        start = graph.states.cumsum(0) - graph.states
        size = int(graph.states.sum())
        total = torch.zeros(size, dtype=potentials.dtype, device=graph.device)
        for index, group in enumerate(graph.groups):
            if len(group) and group.arity == 1:
                scores = potentials.factor_scores(index).detach()
                state = torch.arange(scores.shape[1], device=graph.device)
                place = start[group.scope] + state
                total.scatter_add_(0, place.reshape(-1), scores.reshape(-1))
        return total

    def tables(self, potentials: Potentials) -> list[Float[Tensor, "*shape f"]]:
        """The scores of every sender's factors, factors last."""
        return [
            potentials.factor_scores(index).detach().movedim(0, -1).contiguous()
            for index in self.senders
        ]


def real_links(graph: FactorGraph) -> tuple[Int[np.ndarray, "l"], Int[np.ndarray, "l"], int]:
    """(variable, factor) of every link to a variable with a choice, and the number of factors.

    Factors of all groups are counted in one row.  A variable of one state carries no information,
    so paths through it are no cycles.
    """
    variables, factors, first = [], [], 0
    choice = (graph.states > 1).cpu().numpy()
    for group in graph.groups:
        scope = group.scope.cpu().numpy()
        real = choice[scope] if len(group) else np.zeros(scope.shape, dtype=bool)
        variables.append(scope[real])
        factors.append(np.nonzero(real)[0] + first)
        first += len(group)
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *variables]), np.concatenate([empty, *factors]), first


def is_forest(graph: FactorGraph) -> bool:
    """Whether the factor graph has no cycle, not counting paths through one-state variables."""
    variables, factors, count = real_links(graph)
    size = graph.variables + count
    links = sparse_graph(np.ones(len(factors)), variables, factors + graph.variables, size)
    pieces, _ = connected_components(links, directed=False)
    return bool(len(factors) == size - pieces)


def refuse_lifted(graph: FactorGraph, method: str) -> str | None:
    """Why a graph whose variables stand for several is not for a ground method, or None."""
    if not graph.is_lifted():
        return None
    variable = int((graph.copies != 1).nonzero()[0])
    return (
        f"variable {variable} stands for {float(graph.copies[variable]):g} variables, and {method} "
        "works on ground graphs only. Use a lifted inference, or ground the graph."
    )
