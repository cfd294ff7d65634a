"""How a graph made of paths is walked: found once a graph, without a loop over its variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.parts import sparse_graph
from mrflearn.kernels.chain_steps import Steps

ELSEWHERE = "Exact elimination (small width) or belief propagation takes any graph."


@dataclass(frozen=True, eq=False)
class Links:
    """Where the factors of a pairwise group stand: which step, and whether against its sense."""

    step: Int[Tensor, "f"]
    turned: Bool[Tensor, "f"]


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """Each variable is a row of `steps`, each path one of its sequences.

    `owner` is the component of each path, `row` the row of each variable, `links` has an entry
    for each group (None: unary), and `shared` is the group whose one table serves every step.
    """

    steps: Steps
    owner: Int[Tensor, "p"]
    row: Int[Tensor, "v"]
    links: tuple[Links | None, ...]
    shared: int | None


_PLANS: WeakKeyDictionary[FactorGraph, ChainPlan | str] = WeakKeyDictionary()


def plan_or_reason(graph: FactorGraph) -> ChainPlan | str:
    """The plan of a graph, or why it has none; remembered as long as the graph lives."""
    known = _PLANS.get(graph)
    if known is None:
        known = _obstacle(graph) or _plan(graph)
        _PLANS[graph] = known
    return known


def _obstacle(graph: FactorGraph) -> str | None:
    if graph.is_lifted():
        return "the graph is lifted (its variables stand for several); chains are ground graphs."
    for group in graph.groups:
        if group.arity > 2 and len(group):
            return (
                f"group '{group.name}' has factors of {group.arity} variables; "
                f"a chain has at most 2. {ELSEWHERE}"
            )
    edges = _edges(graph)
    degree = torch.bincount(edges.flatten(), minlength=graph.variables)
    if len(degree) and int(degree.max()) > 2:
        variable = int(degree.argmax())
        return (
            f"component {int(graph.component[variable])} is not a path: variable {variable} has "
            f"{int(degree[variable])} neighbours, and 2 is the most. {ELSEWHERE}"
        )
    return None


def _plan(graph: FactorGraph) -> ChainPlan | str:
    edges = _edges(graph)
    path, position = _walk(edges.numpy(), graph.variables)
    if (position < 0).any():
        variable = int((position < 0).argmax())
        component = int(graph.component[variable])
        return (
            f"component {component} is not a path: variable {variable} is on a cycle. {ELSEWHERE}"
        )
    along = torch.from_numpy(np.lexsort((position, path)))
    steps = Steps.of(torch.from_numpy(np.bincount(path)))
    steps = replace(steps, source=along[steps.source])
    row = torch.empty_like(steps.source).index_copy(0, steps.source, torch.arange(len(along)))
    owner = graph.component.cpu().new_zeros(len(steps.lengths))
    owner[torch.from_numpy(path)] = graph.component.cpu()
    links = [_links(group, row, steps.starting) for group in graph.groups]
    shared = _shared(graph.groups, links, len(steps) - steps.starting)
    return _to(ChainPlan(steps, owner, row, tuple(links), shared), graph.device)


def _edges(graph: FactorGraph) -> Int[Tensor, "e 2"]:
    """The joined pairs, each once, the smaller number first."""
    scopes = [group.scope for group in graph.groups if group.arity == 2]
    if not scopes:
        return torch.zeros(0, 2, dtype=torch.int64)
    low, high = torch.cat(scopes).cpu().sort(dim=1).values.unbind(dim=1)
    code = torch.unique(low * graph.variables + high)
    size = max(graph.variables, 1)
    return torch.stack([code.div(size, rounding_mode="floor"), code % size], dim=1)


def _walk(edges: np.ndarray, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """The path of each variable and its position there, from the end with the smaller number.

    The position is -1 on a cycle.
    """
    low, high = edges.T
    joined = sparse_graph(np.ones(len(edges)), low, high, variables)
    count, path = connected_components(joined, directed=False)
    ends = np.flatnonzero(np.bincount(edges.ravel(), minlength=variables) < 2)
    first = np.full(count, -1)
    first[path[ends[::-1]]] = ends[::-1]  # the smallest is written last
    starts = first[first >= 0]
    if not len(starts):
        return path.astype(np.int64), np.full(variables, -1)
    distance = dijkstra(joined, directed=False, indices=starts, unweighted=True, min_only=True)
    position = np.where(np.isfinite(distance), distance, -1).astype(np.int64)
    return path.astype(np.int64), position


def _links(group: FactorGroup, row: Tensor, starting: int) -> Links | None:
    if group.arity != 2:
        return None
    first, second = row[group.scope.cpu()].unbind(dim=1)
    # Rows are numbered step by step, so the later row is the later position.
    return Links(torch.maximum(first, second) - starting, first > second)


def _shared(groups: Sequence[FactorGroup], links: list[Links | None], steps: int) -> int | None:
    pairs = [i for i, link in enumerate(links) if link is not None and len(groups[i])]
    if len(pairs) != 1:
        return None
    group, link = groups[pairs[0]], links[pairs[0]]
    one_table = bool((group.table == group.table[0]).all())
    one_weight = bool((group.multiplicity == group.multiplicity[0]).all())
    straight = link is not None and not bool(link.turned.any())
    return pairs[0] if one_table and one_weight and straight and len(group) == steps else None


def _to(plan: ChainPlan, device: torch.device) -> ChainPlan:
    links = [
        None if link is None else Links(link.step.to(device), link.turned.to(device))
        for link in plan.links
    ]
    return replace(
        plan,
        steps=plan.steps.to(device),
        owner=plan.owner.to(device),
        row=plan.row.to(device),
        links=tuple(links),
    )
