"""The node-split graph: a copy of each variable for every piece of the graph that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph


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
