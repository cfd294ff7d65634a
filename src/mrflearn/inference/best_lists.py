"""The n best assignments of any field that has an exact maximiser.

The best is known; every other one differs from it in a first variable v: so the second best is
the best among v problems in which the variables before v are as they were and v is not [Lawler
1972].  The problems of one round have the same graph and are solved as one batch.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.evidence import restrict
from mrflearn.graph.factor_graph import disjoint_union
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Maximiser, insist


@dataclass(order=True)
class _Candidate:
    """The best assignment of what a mask allows; `fixed` variables before cannot change."""

    loss: float
    number: int  # of equals the first found comes first
    states: Int64[Tensor, "v"] = field(compare=False)
    allowed: Bool[Tensor, "v s"] = field(compare=False)
    fixed: int = field(compare=False)


def best_list(
    potentials: Potentials,
    count: int,
    maximiser: Maximiser,
    allowed: Bool[Tensor, "v s"] | None = None,
) -> list[tuple[Int64[Tensor, "v"], float]]:
    """At most `count` (assignment, score) of a field of one component, best first."""
    graph = potentials.graph
    if count < 1 or graph.components != 1:
        raise InferenceError(
            f"{count} best of {graph.components} examples: ask for 1 or more of 1."
        )
    insist(maximiser, graph)
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
    union = disjoint_union([potentials.graph] * len(masks))
    field = Potentials(union, potentials.tables)
    found = maximiser.best(restrict(field, torch.cat([mask for mask, _ in masks])))
    states = found.assignment.view(len(masks), -1)
    score = potentials.score(states).squeeze(-1)
    return [
        _Candidate(-float(score[k]), number + k, states[k], mask, fixed)
        for k, (mask, fixed) in enumerate(masks)
        if float(found.score[k]) > -torch.inf
    ]
