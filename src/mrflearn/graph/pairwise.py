"""A pairwise graph from its edges: one unary factor a variable, one pairwise factor an edge."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup

States = int | Sequence[int] | Int[Tensor, "v"]


def pairwise(
    states: Int[Tensor, "v"],
    edges: Int[Tensor, "e 2"],
    *,
    tied: bool = False,
    component: Int[Tensor, "v"] | None = None,
    components: int = 0,
) -> FactorGraph:
    """A graph with the groups "unary" and "pairwise", in the order of variables and of edges.

    `tied`: all factors of a group read table 0; else each has a table of its own.  Variables with
    unequal state counts give a group for each shape, such as "unary 3" and "pairwise 3x2".
    """
    singles = torch.arange(len(states), device=states.device).unsqueeze(1)
    groups = _groups("unary", states, singles, tied) + _groups("pairwise", states, edges, tied)
    owner = torch.zeros_like(states) if component is None else component
    return FactorGraph(states, groups, owner, components=components)


def state_counts(states: States, variables: int) -> Int[Tensor, "v"]:
    """One state count a variable, from a number for all of them or from a list."""
    if isinstance(states, int):
        return torch.full((variables,), states, dtype=torch.int64)
    counts = torch.as_tensor(states, dtype=torch.int64)
    if counts.shape != (variables,):
        raise GraphError(
            f"{len(counts)} state counts were given for {variables} variables. "
            "Give one number for all, or one a variable."
        )
    return counts


def named_group(graph: FactorGraph, name: str) -> int:
    """The position of the group with this name."""
    names = [group.name for group in graph.groups]
    if name not in names:
        found = ", ".join(f"'{known}'" for known in names) or "none"
        raise GraphError(
            f"the graph has no group '{name}' (it has: {found}). "
            "Build it with a builder such as grid(), and equal state counts."
        )
    return names.index(name)


def _groups(
    name: str, states: Int[Tensor, "v"], scope: Int[Tensor, "f a"], tied: bool
) -> tuple[FactorGroup, ...]:
    make = FactorGroup.tied if tied else FactorGroup
    if not len(scope) or int(states.min()) == int(states.max()):
        return (make(name, scope),)
    shapes, member = torch.unique(states[scope], dim=0, return_inverse=True)
    if len(shapes) == 1:
        return (make(name, scope),)
    labels = ["x".join(map(str, shape)) for shape in shapes.tolist()]
    return tuple(make(f"{name} {label}", scope[member == i]) for i, label in enumerate(labels))
