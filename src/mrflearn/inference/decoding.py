"""Most probable assignments and n-best lists of any factor graph.

The best is known; every other one differs from it in a first variable v: so the second best is
the best among v problems in which the variables before v are as they were and v is not [Lawler
1972].  The problems of one round have the same graph and are solved as one batch.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int, Int64
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.evidence import restrict
from mrflearn.graph.factor_graph import FactorGraph, disjoint_union
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Maximiser
from mrflearn.inference.messages import Field, along, real_links
from mrflearn.inference.sampling import Conditionals

# One consistent assignment from max-product messages, and a local search from any assignment.


def follow_messages(field: Field, messages: Tensor) -> Int[Tensor, " v"]:
    """An assignment read off max-product messages; a best one on a forest, ties or not.

    Each variable's own best state will not do: where two assignments tie, it may mix them.  So one
    variable a connected piece chooses freely, and then, level by level of a breadth-first search,
    every factor chooses jointly for the variables it was the first to reach, given those before.
    """
    graph, wiring = field.wiring.graph, field.wiring
    best = wiring.padded(field.totals(messages), -torch.inf).argmax(1)
    inboxes = dict(zip(wiring.senders, field.inboxes(messages), strict=True))
    tables = dict(zip(wiring.senders, field.tables, strict=True))
    level, reached_by, chosen = _breadth_first(graph)
    assignment = torch.where(chosen, best, 0)
    for index, factors in _levels(graph, level):
        if index not in tables:
            continue
        group = graph.groups[index]
        scope = group.scope[factors]
        fresh = reached_by[scope] == (factors + _first_factor(graph, index)).unsqueeze(1)
        belief = tables[index][..., factors]
        for axis in range(group.arity):
            inbox = _fixed(
                inboxes[index][axis][:, factors],
                chosen[scope[:, axis]],
                assignment[scope[:, axis]],
            )
            belief = belief + along(inbox, axis, belief.ndim)
        states = _argmax(belief)
        assignment[scope[fresh]] = states[fresh]
        chosen[scope[fresh]] = True
    return assignment


def _fixed(inbox: Tensor, chosen: Bool[Tensor, " k"], state: Int[Tensor, " k"]) -> Tensor:
    """What variables say (s, k), or, where they have chosen, that only this state remains."""
    row = torch.arange(len(inbox), device=inbox.device).unsqueeze(1)
    only = torch.where(row == state, 0.0, -torch.inf).to(inbox.dtype)
    return torch.where(chosen, only, inbox)


def _argmax(belief: Tensor) -> Int[Tensor, "k a"]:
    """The states of the best joint entry of every factor (factors last)."""
    flat = belief.flatten(0, -2).argmax(0)
    return torch.stack(torch.unravel_index(flat, belief.shape[:-1]), dim=1)


def _first_factor(graph: FactorGraph, index: int) -> int:
    return sum(len(group) for group in graph.groups[:index])


def _breadth_first(
    graph: FactorGraph,
) -> tuple[Int[np.ndarray, " f"], Int[Tensor, " v"], Bool[Tensor, " v"]]:
    """Every factor's level (-1: never reached), which factor reached each variable, and the roots.

    One-state variables count as chosen, and no path leads through them.
    """
    variables, factors, count = real_links(graph)
    size = graph.variables + count
    links = sparse_graph(np.ones(len(factors)), variables, factors + graph.variables, size)
    _, piece = connected_components(links, directed=False)
    _, roots = np.unique(piece[: graph.variables], return_index=True)
    # One more node, tied to every root, makes one search out of many.
    rows = np.concatenate([variables, np.full(len(roots), size)])
    columns = np.concatenate([factors + graph.variables, roots])
    joined = sparse_graph(np.ones(len(rows)), rows, columns, size + 1)
    distance, before = dijkstra(
        joined, directed=False, indices=size, unweighted=True, return_predecessors=True
    )
    level = np.where(np.isfinite(distance), distance, -1)[graph.variables : size].astype(np.int64)
    reached_by = torch.from_numpy(before[: graph.variables].astype(np.int64) - graph.variables)
    chosen = graph.states == 1
    chosen[torch.from_numpy(roots).to(graph.device)] = True
    return level, reached_by.to(graph.device), chosen


def _levels(
    graph: FactorGraph, level: Int[np.ndarray, " f"]
) -> list[tuple[int, Int[Tensor, " k"]]]:
    """(group, its factors) from the lowest level up; factors never reached are left out."""
    found: list[tuple[int, int, Int[Tensor, " k"]]] = []
    first = 0
    for index, group in enumerate(graph.groups):
        own = level[first : first + len(group)]
        order = np.argsort(own, kind="stable")
        values, starts = np.unique(own[order], return_index=True)
        pieces = np.split(order, starts[1:]) if len(order) else []
        found += [
            (int(value), index, torch.from_numpy(piece).to(graph.device))
            for value, piece in zip(values, pieces, strict=True)
            if value >= 0
        ]
        first += len(group)
    return [(index, factors) for _, index, factors in sorted(found, key=lambda entry: entry[:2])]


def iterated_conditional_modes(
    potentials: Potentials, assignment: Int[Tensor, " v"], max_sweeps: int = 100
) -> Int[Tensor, " v"]:
    """A local optimum: each variable in its best state given all others [Besag 1986]."""
    conditionals = Conditionals.of(potentials)
    states = assignment.clone().unsqueeze(1)
    for _ in range(max_sweeps):
        before = states.clone()
        for colour in conditionals.colours:
            scores = colour.scores(states)
            current = scores.gather(0, states[colour.variables].unsqueeze(0))
            top, best = scores.max(0)
            better = top > current.squeeze(0)
            states[colour.variables] = torch.where(better, best, states[colour.variables])
        if torch.equal(states, before):
            break
    return states.squeeze(1)


# The n best assignments of any field that has an exact maximiser.


PROBLEMS_AT_ONCE = 64


@dataclass(order=True)
class _Candidate:
    """The best assignment of what a mask allows; `fixed` variables before cannot change."""

    loss: float
    number: int  # of equals the first found comes first
    states: Int64[Tensor, " v"] = field(compare=False)
    allowed: Bool[Tensor, "v s"] = field(compare=False)
    fixed: int = field(compare=False)


def best_list(
    potentials: Potentials,
    count: int,
    maximiser: Maximiser,
    allowed: Bool[Tensor, "v s"] | None = None,
) -> list[tuple[Int64[Tensor, " v"], float]]:
    """At most `count` (assignment, score) of a field of one component, best first."""
    graph = potentials.graph
    if count < 1 or graph.components != 1:
        raise InferenceError(
            f"{count} best of {graph.components} examples: ask for 1 or more of 1."
        )
    free = graph.legal() if allowed is None else allowed & graph.legal()
    waiting = _solved(potentials, maximiser, [(free, 0)], 0)
    found: list[tuple[Tensor, float]] = []
    made = 1
    while waiting and len(found) < count:
        best = heapq.heappop(waiting)
        found.append((best.states, -best.loss))
        if len(found) < count:
            more = _solved(potentials, maximiser, _without(best), made)
            made += graph.variables
            for candidate in more:
                heapq.heappush(waiting, candidate)
    return found


def _without(best: _Candidate) -> list[tuple[Bool[Tensor, "v s"], int]]:
    """Masks that share no assignment and together allow all that `best` did, but itself."""
    masks, mask = [], best.allowed.clone()
    for variable in range(len(mask)):
        state = int(best.states[variable])
        if variable >= best.fixed:
            other = mask.clone()
            other[variable, state] = False
            if bool(other[variable].any()):
                masks.append((other, variable))
        mask[variable] = False
        mask[variable, state] = True
    return masks


def _solved(
    potentials: Potentials,
    maximiser: Maximiser,
    masks: list[tuple[Bool[Tensor, "v s"], int]],
    number: int,
) -> list[_Candidate]:
    """The best of what each mask allows, where it allows anything possible."""
    if not masks:
        return []
    # Always as many together, so that one graph, planned once, serves every round.
    together = max(1, min(potentials.graph.variables, PROBLEMS_AT_ONCE))
    field = Potentials(potentials.graph.planned(_repeated, together), potentials.tables)
    candidates: list[_Candidate] = []
    for start in range(0, len(masks), together):
        some = masks[start : start + together]
        allowed = [mask for mask, _ in some]
        allowed += [torch.zeros_like(allowed[0])] * (together - len(some))
        found = maximiser.best(restrict(field, torch.cat(allowed)))
        states = found.assignment.view(together, -1)
        score = potentials.score(states).squeeze(-1)
        candidates += [
            _Candidate(-float(score[k]), number + start + k, states[k], mask, fixed)
            for k, (mask, fixed) in enumerate(some)
            if float(found.score[k]) > -torch.inf
        ]
    return candidates


def _repeated(graph: FactorGraph, times: int) -> FactorGraph:
    return disjoint_union([graph] * times)
