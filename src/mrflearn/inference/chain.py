"""Exact inference on chains of any graph: recursions along the chain.

So: chains and batches of chains, single variables, parallel factors, unequal state counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import moved
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import BeliefMethod, Beliefs, Decoding, Sampler, insist_possible
from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps

# How a graph made of paths is walked: found once a graph, without a loop over its variables.


ELSEWHERE = "Exact elimination (small width) or belief propagation takes any graph."


@dataclass(frozen=True, eq=False)
class Links:
    """Where the factors of a pairwise group stand: which step, and whether against its sense."""

    step: Int[Tensor, " f"]
    turned: Bool[Tensor, " f"]


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """Each variable is a row of `steps`, each path one of its sequences.

    `owner` is the component of each path, `row` the row of each variable, `links` has an entry
    for each group (None: unary), and `shared` is the group whose one table serves every step.
    """

    steps: Steps
    owner: Int[Tensor, " p"]
    row: Int[Tensor, " v"]
    links: tuple[Links | None, ...]
    shared: int | None


def plan_or_reason(graph: FactorGraph) -> ChainPlan | str:
    """The plan of a graph, or why it has none."""
    for group in graph.groups:
        if group.arity > 2 and len(group):
            return (
                f"group '{group.name}' has factors of {group.arity} variables; "
                f"a chain has at most 2. {ELSEWHERE}"
            )
    edges = _edges(graph)
    degree = torch.bincount(edges.flatten(), minlength=graph.variables)
    if len(degree) and int(degree.max()) > 2:
        count = f"has {int(degree.max())} neighbours, and 2 is the most"
        return _not_a_path(graph, int(degree.argmax()), count)
    path, position = _walk(edges.numpy(), graph.variables)
    if (position < 0).any():
        return _not_a_path(graph, int((position < 0).argmax()), "is on a cycle")
    along = torch.from_numpy(np.lexsort((position, path)))
    steps = Steps.of(torch.from_numpy(np.bincount(path)))
    steps = replace(steps, source=along[steps.source])
    row = torch.empty_like(steps.source).index_copy(0, steps.source, torch.arange(len(along)))
    owner = graph.component.cpu().new_zeros(len(steps.lengths))
    owner[torch.from_numpy(path)] = graph.component.cpu()
    links = [_links(group, row, steps.starting) for group in graph.groups]
    shared = _shared(graph.groups, links, len(steps) - steps.starting)
    return moved(ChainPlan(steps, owner, row, tuple(links), shared), graph.device)


def _not_a_path(graph: FactorGraph, variable: int, reason: str) -> str:
    component = int(graph.component[variable])
    return f"component {component} is not a path: variable {variable} {reason}. {ELSEWHERE}"


def _edges(graph: FactorGraph) -> Int[Tensor, "e 2"]:
    """The joined pairs, each once, the smaller number first."""
    scopes = (group.scope.cpu() for group in graph.groups if group.arity == 2)
    ends = torch.cat([torch.zeros(0, 2, dtype=torch.int64), *scopes]).sort(dim=1).values
    size = max(graph.variables, 1)
    code = torch.unique(ends[:, 0] * size + ends[:, 1])
    return torch.stack([code.div(size, rounding_mode="floor"), code % size], dim=1)


def _walk(edges: np.ndarray, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """The path of each variable and its position there, from the end with the smaller number.

    The position is -1 on a cycle.
    """
    low, high = edges.T
    joined = sparse_graph(np.ones(len(edges)), low, high, variables)
    _, path = connected_components(joined, directed=False)
    ends = np.flatnonzero(np.bincount(edges.ravel(), minlength=variables) < 2)
    _, first = np.unique(path[ends], return_index=True)  # the smallest end of each path
    distance = np.full(variables, np.inf)
    if len(first):
        starts = ends[first]
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
    pairs = [(i, link) for i, link in enumerate(links) if link is not None and len(link.step)]
    if len(pairs) != 1:
        return None
    index, link = pairs[0]
    table = groups[index].table
    one_table = len(table) == steps and bool((table == table[0]).all())
    return index if one_table and not bool(link.turned.any()) else None


# Exact inference where every connected part of a graph is a path.


@final
@dataclass(frozen=True)
class Chain(BeliefMethod, Sampler):
    """Forward-backward, Viterbi, n best, samples and entropy, over all paths of a graph at once."""

    def refuses(self, graph: FactorGraph) -> str | None:
        found = graph.planned(plan_or_reason)
        return found if isinstance(found, str) else None

    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        graph, plan = potentials.graph, self._plan(potentials.graph)
        value, single, pair = chain_sums.marginals(*_scores(potentials, plan), plan.steps)
        log_partition = _by_component(value, plan, graph)
        possible = log_partition > -torch.inf
        if not bool(possible.all()):
            row = possible[plan.owner[plan.steps.sequence]]
            single = single.where(row[:, None], 0.0)
            pair = pair.where(row[plan.steps.starting :, None, None], 0.0)
        factors = _factor_beliefs(potentials, plan, single, pair)
        value = log_partition.to(potentials.dtype)
        return Beliefs(value, single[plan.row], factors, kind="exact")

    def log_partition(self, potentials: Potentials) -> Float[Tensor, " c"]:
        """log Z alone, differentiable; where all steps share a table no pair belief is held."""
        plan = self._plan(potentials.graph)
        value = chain_sums.log_partition(*_scores(potentials, plan), plan.steps)
        return _by_component(value, plan, potentials.graph)

    def entropy(self, potentials: Potentials) -> Float[Tensor, " c"]:
        """The entropy of each component, in nats; -inf where nothing is possible."""
        plan = self._plan(potentials.graph)
        value = chain_sums.entropy(*_scores(potentials, plan), plan.steps)
        return _by_component(value, plan, potentials.graph)

    @torch.no_grad()
    def best(self, potentials: Potentials) -> Decoding:
        plan = self._plan(potentials.graph)
        states, score = chain_search.viterbi(*_scores(potentials, plan), plan.steps)
        # Where nothing is possible the search may have named a state that a variable has not.
        assignment = torch.minimum(states[plan.row], potentials.graph.states - 1)
        return Decoding(assignment, _by_component(score, plan, potentials.graph), kind="exact")

    @torch.no_grad()
    def best_n(self, potentials: Potentials, count: int) -> tuple[Decoding, ...]:
        """The `count` best assignments of each component, best first.

        Where a component has fewer, the rest score -inf.
        """
        if count < 1:
            raise InferenceError(f"the {count} best were asked for; 1 is the least.")
        graph, plan = potentials.graph, self._plan(potentials.graph)
        paths, scores = chain_search.n_best(*_scores(potentials, plan), plan.steps, count)
        choice, total = _best_sums(scores, plan.owner, graph.components)
        chosen = paths.gather(1, choice[plan.steps.sequence])[plan.row]
        chosen = torch.minimum(chosen, graph.states[:, None] - 1)
        return tuple(Decoding(chosen[:, i], total[:, i], kind="exact") for i in range(count))

    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        plan = self._plan(potentials.graph)
        unary, transition = _scores(potentials, plan)
        value = chain_sums.log_partition(unary, transition, plan.steps)
        insist_possible(value, plan.owner)
        drawn = chain_search.sample(unary, transition, plan.steps, count, generator)
        return drawn[:, plan.row]

    def _plan(self, graph: FactorGraph) -> ChainPlan:
        found = graph.planned(plan_or_reason)
        if isinstance(found, str):
            raise InferenceError(found)
        return found


def _scores(potentials: Potentials, plan: ChainPlan) -> tuple[Tensor, Tensor]:
    """Scores of rows (r s) and of steps (s s or q s s); -inf at states a variable has not."""
    graph, unary = potentials.graph, potentials.unary_scores()[plan.steps.source]
    if plan.shared is not None:
        group = graph.groups[plan.shared]
        table = potentials.tables[plan.shared].dense()[group.table[0]]
        return unary, _widen(table, graph.most_states, -torch.inf)
    return unary, _step_scores(potentials, plan)


def _step_scores(potentials: Potentials, plan: ChainPlan) -> Float[Tensor, "q s s"]:
    steps, most = plan.steps, potentials.graph.most_states
    legal = potentials.graph.legal()[steps.source]
    both = legal[steps.previous][:, :, None] & legal[steps.starting :][:, None, :]
    total = torch.zeros(both.shape, dtype=potentials.dtype, device=both.device)
    total = total.masked_fill(~both, -torch.inf)
    for i, link in enumerate(plan.links):
        if link is not None and len(link.step):
            scores = _widen(potentials.factor_scores(i), most)
            total = total.index_add(0, link.step, _turn(scores, link))
    return total


def _factor_beliefs(
    potentials: Potentials, plan: ChainPlan, single: Tensor, pair: Tensor
) -> tuple[Tensor, ...]:
    beliefs = []
    parts = zip(potentials.graph.groups, potentials.tables, plan.links, strict=True)
    for group, table, link in parts:
        shape = table.shape[1:]
        if not len(group):
            beliefs.append(single.new_zeros(0, *shape))
        elif link is None:
            beliefs.append(single[plan.row[group.scope[:, 0]], : shape[0]])
        else:
            beliefs.append(_turn(pair[link.step], link)[:, : shape[0], : shape[1]])
    return tuple(beliefs)


def _best_sums(scores: Tensor, owner: Tensor, components: int) -> tuple[Tensor, Tensor]:
    """Which of its m best each path takes in the m best of its component, and their scores."""
    count = scores.shape[1]
    total = scores.new_full((components, count), -torch.inf)
    total[:, 0] = 0.0
    turns = _ordinal(owner, components)
    taken: list[tuple[Tensor, Tensor]] = []
    for turn in range(int(turns.max()) + 1 if len(turns) else 0):
        members = (turns == turn).nonzero().squeeze(1)
        sums = (total[owner[members], :, None] + scores[members, None, :]).flatten(1)
        total[owner[members]], index = sums.topk(count, dim=1)
        taken.append((members, index))
    place = torch.arange(count, device=scores.device).expand(components, -1).clone()
    choice = torch.zeros_like(scores, dtype=torch.int64)
    for members, index in reversed(taken):
        index = index.gather(1, place[owner[members]])
        choice[members], place[owner[members]] = index % count, index // count
    return choice, total


def _ordinal(owner: Tensor, components: int) -> Int[Tensor, " p"]:
    """0 for the first path of each component, 1 for the second, ..."""
    order = owner.argsort(stable=True)
    sizes = torch.bincount(owner, minlength=components)
    begin = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rank = torch.arange(len(owner), device=owner.device) - begin
    return torch.empty_like(rank).index_copy(0, order, rank)


def _by_component(value: Float[Tensor, " p"], plan: ChainPlan, graph: FactorGraph) -> Tensor:
    return value.new_zeros(graph.components).index_add(0, plan.owner, value)


def _turn(tables: Float[Tensor, "f s s"], link: Links) -> Float[Tensor, "f s s"]:
    if not bool(link.turned.any()):
        return tables
    return torch.where(link.turned[:, None, None], tables.transpose(1, 2), tables)


def _widen(scores: Tensor, most: int, fill: float = 0.0) -> Tensor:
    """The same tables, their last two axes filled up to the most states."""
    lacking = [n for size in reversed(scores.shape[-2:]) for n in (0, most - size)]
    return pad(scores, lacking, value=fill) if any(lacking) else scores
