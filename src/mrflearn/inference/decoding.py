"""Most probable assignments and n-best lists of any factor graph.

The best is known; every other one differs from it in a first variable v: so the second best is
the best among v problems in which the variables before v are as they were and v is not [Lawler
1972].  The problems of one round have the same graph and are solved as one batch.
"""

from __future__ import annotations

import heapq

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.evidence import restrict
from mrflearn.graph.factor_graph import FactorGraph, disjoint_union
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Maximiser
from mrflearn.inference.messages import Field, bipartite, joint
from mrflearn.inference.sampling import Conditionals

Assignment = Int[Tensor, " v"]
Mask = Bool[Tensor, "v s"]  # the states that each variable may be in
Levels = list[tuple[int, Int[Tensor, " k"], Int[Tensor, " k"]]]

# One consistent assignment from max-product messages, and a local search from any assignment.


MOST_SWEEPS = 100  # of iterated conditional modes


def follow_messages(field: Field, messages: Tensor) -> Assignment:
    """An assignment read off max-product messages; a best one on a forest, ties or not.

    Each variable's own best state will not do: where two assignments tie, it may mix them.  So one
    variable a connected piece chooses freely, and then, level by level of a breadth-first search,
    every factor chooses jointly for the variables it was the first to reach, given those before.
    """
    graph, senders = field.graph, field.wiring.senders
    best = field.totals(messages).argmax(1)
    inboxes = dict(zip(senders, field.inboxes(messages), strict=True))
    tables = dict(zip(senders, field.tables, strict=True))
    levels, reached_by, chosen = _breadth_first(graph)
    assignment = torch.where(chosen, best, 0)
    for index, factors, numbers in levels:
        if index not in tables:
            continue
        scope = graph.groups[index].scope[factors]
        fresh = reached_by[scope] == numbers.unsqueeze(1)
        heard = []
        for axis, inbox in enumerate(inboxes[index]):  # of those that chose, one state remains
            row = torch.arange(len(inbox), device=inbox.device).unsqueeze(1)
            other = chosen[scope[:, axis]] & (row != assignment[scope[:, axis]])
            known = inbox[:, factors].where(~chosen[scope[:, axis]], 0.0)
            heard.append(known.masked_fill(other, -torch.inf))
        belief = joint(tables[index][..., factors], heard)
        flat = belief.flatten(0, -2).argmax(0)
        states = torch.stack(torch.unravel_index(flat, belief.shape[:-1]), dim=1)
        assignment[scope[fresh]] = states[fresh]
        chosen[scope[fresh]] = True
    return assignment


def _breadth_first(graph: FactorGraph) -> tuple[Levels, Int[Tensor, " v"], Bool[Tensor, " v"]]:
    """Factors level by level, which factor reached each variable, and the roots.

    Factors are given as group, places in the group, and numbers through all groups; those never
    reached are left out.  One-state variables count as chosen, and no path leads through them.
    """
    links, count = bipartite(graph), graph.variables
    _, piece = connected_components(links, directed=False)
    _, roots = np.unique(piece[:count], return_index=True)
    if not count:
        return [], graph.component, graph.component > 0
    distance, before, _ = dijkstra(
        links, False, roots, return_predecessors=True, unweighted=True, min_only=True
    )
    sizes = np.array([len(group) for group in graph.groups], dtype=np.int64)
    owner, first = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    level = distance[count:]
    reached = np.flatnonzero(np.isfinite(level))
    order = reached[np.lexsort((owner[reached], level[reached]))]
    ends = np.diff(level[order]).astype(bool) | np.diff(owner[order]).astype(bool)
    levels = []
    for piece in np.split(order, np.flatnonzero(ends) + 1) if len(order) else ():
        index, numbers = int(owner[piece[0]]), torch.from_numpy(piece).to(graph.device)
        levels.append((index, numbers - int(first[index]), numbers))
    chosen = graph.states == 1
    chosen[torch.from_numpy(roots).to(graph.device)] = True
    reached_by = torch.from_numpy(before[:count].astype(np.int64) - count)
    return levels, reached_by.to(graph.device), chosen


def iterated_conditional_modes(conditionals: Conditionals, assignment: Assignment) -> Assignment:
    """A local optimum: each variable in its best state given all others [Besag 1986]."""
    states = assignment.clone().unsqueeze(1)
    for _ in range(MOST_SWEEPS):
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


# The best assignment of what a mask allows: (loss, number, states, mask, how many variables before
# cannot change); of equals the first found comes first.
Candidate = tuple[float, int, Assignment, Mask, int]


def best_list(
    potentials: Potentials, count: int, maximiser: Maximiser, allowed: Mask | None = None
) -> list[tuple[Assignment, float]]:
    """At most `count` (assignment, score) of a field of one component, best first."""
    graph = potentials.graph
    if count < 1 or graph.components != 1:
        raise InferenceError(
            f"{count} best of {graph.components} examples: ask for 1 or more, of one example."
        )
    free = potentials.unary_scores() > -torch.inf  # an observed variable has no other state
    free = free if allowed is None else allowed & free
    masks, made = [(free, 0)], 0
    waiting: list[Candidate] = []
    found: list[tuple[Tensor, float]] = []
    while len(found) < count:
        for candidate in _solved(potentials, maximiser, masks, made):
            heapq.heappush(waiting, candidate)
        if not waiting:
            break
        made += len(masks)
        loss, _, states, own, fixed = heapq.heappop(waiting)
        found.append((states, -loss))
        masks = _without(states, own, fixed)
    return found


def _without(states: Assignment, allowed: Mask, fixed: int) -> list[tuple[Mask, int]]:
    """Masks that share no assignment and together allow all that `allowed` does, but `states`."""
    masks, mask = [], allowed.clone()
    for variable, state in enumerate(states.tolist()):
        if variable >= fixed:
            other = mask.clone()
            other[variable, state] = False
            if bool(other[variable].any()):
                masks.append((other, variable))
        mask[variable] = False
        mask[variable, state] = True
    return masks


def _solved(
    potentials: Potentials, maximiser: Maximiser, masks: list[tuple[Mask, int]], number: int
) -> list[Candidate]:
    """The best of what each mask allows, where it allows anything possible."""
    # Always as many together, so that one graph, planned once, serves every round.
    together = max(1, min(potentials.graph.variables, PROBLEMS_AT_ONCE))
    field = Potentials(potentials.graph.planned(_repeated, together), potentials.tables)
    candidates: list[Candidate] = []
    for start in range(0, len(masks), together):
        some = masks[start : start + together]
        allowed = [mask for mask, _ in some]
        allowed += [torch.zeros_like(allowed[0])] * (together - len(some))
        found = maximiser.best(restrict(field, torch.cat(allowed)))
        states = found.assignment.view(together, -1)
        score = potentials.score(states).squeeze(-1)
        candidates += [
            (-float(score[k]), number + start + k, states[k], mask, fixed)
            for k, (mask, fixed) in enumerate(some)
            if float(found.score[k]) > -torch.inf
        ]
    return candidates


def _repeated(graph: FactorGraph, times: int) -> FactorGraph:
    return disjoint_union([graph] * times)
