"""Exact inference where every connected part of a graph is a path.

So: chains and batches of chains, single variables, parallel factors, unequal state counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, Decoding, insist_possible, with_gradient
from mrflearn.inference.chain_plan import ChainPlan, Links, plan_or_reason
from mrflearn.kernels import chain_sampling, chain_search, chain_sums


@final
@dataclass(frozen=True)
class Chain:
    """Forward-backward, Viterbi, n best, samples and entropy, over all paths of a graph at once."""

    def refuses(self, graph: FactorGraph) -> str | None:
        found = plan_or_reason(graph)
        return found if isinstance(found, str) else None

    def __call__(self, potentials: Potentials) -> Beliefs:
        graph, plan = potentials.graph, self._plan(potentials.graph)
        with torch.no_grad():
            unary, transition = _scores(potentials, plan)
            value, single, pair = chain_sums.marginals(unary, transition, plan.steps)
            log_partition = _by_component(value, plan, graph)
            possible = log_partition > -torch.inf
            if not bool(possible.all()):
                row = possible[plan.owner[plan.steps.sequence]]
                single = single.where(row[:, None], 0.0)
                pair = pair.where(row[plan.steps.starting :, None, None], 0.0)
            factors = _factor_beliefs(potentials, plan, single, pair)
        beliefs = Beliefs(log_partition, single[plan.row], factors, kind="exact")
        return with_gradient(potentials, beliefs)

    def log_partition(self, potentials: Potentials) -> Float[Tensor, "c"]:
        """log Z alone, differentiable; where all steps share a table no pair belief is held."""
        plan = self._plan(potentials.graph)
        value = chain_sums.log_partition(*_scores(potentials, plan), plan.steps)
        return _by_component(value, plan, potentials.graph)

    def entropy(self, potentials: Potentials) -> Float[Tensor, "c"]:
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

    @torch.no_grad()
    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        plan = self._plan(potentials.graph)
        unary, transition = _scores(potentials, plan)
        value = chain_sums.log_partition(unary, transition, plan.steps)
        insist_possible(value, plan.owner)
        drawn = chain_sampling.sample(unary, transition, plan.steps, count, generator)
        return drawn[:, plan.row]

    def _plan(self, graph: FactorGraph) -> ChainPlan:
        found = plan_or_reason(graph)
        if isinstance(found, str):
            raise InferenceError(found)
        return found


def _scores(potentials: Potentials, plan: ChainPlan) -> tuple[Tensor, Tensor]:
    """Scores of rows (r s) and of steps (s s or q s s); -inf at states a variable has not."""
    graph, steps = potentials.graph, plan.steps
    legal = graph.legal()[steps.source]
    unary = torch.zeros(legal.shape, dtype=potentials.dtype, device=graph.device)
    unary = unary.masked_fill(~legal, -torch.inf)
    for i, group in enumerate(graph.groups):
        if group.arity == 1 and len(group):
            scores = _widen(potentials.factor_scores(i), 1, graph.most_states)
            unary = unary.index_add(0, plan.row[group.scope[:, 0]], scores)
    if plan.shared is not None:
        group = graph.groups[plan.shared]
        table = potentials.tables[plan.shared].dense()[group.table[0]]
        table = table * group.multiplicity[0].to(table.dtype)
        return unary, _widen(table, 2, graph.most_states, -torch.inf)
    return unary, _step_scores(potentials, plan, legal)


def _step_scores(potentials: Potentials, plan: ChainPlan, legal: Tensor) -> Float[Tensor, "q s s"]:
    steps, most = plan.steps, potentials.graph.most_states
    both = legal[steps.previous][:, :, None] & legal[steps.starting :][:, None, :]
    total = torch.zeros(both.shape, dtype=potentials.dtype, device=both.device)
    total = total.masked_fill(~both, -torch.inf)
    for i, link in enumerate(plan.links):
        if link is not None and len(link.step):
            scores = _widen(potentials.factor_scores(i), 2, most)
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


def _ordinal(owner: Tensor, components: int) -> Int[Tensor, "p"]:
    """0 for the first path of each component, 1 for the second, ..."""
    order = owner.argsort(stable=True)
    sizes = torch.bincount(owner, minlength=components)
    begin = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rank = torch.arange(len(owner), device=owner.device) - begin
    return torch.empty_like(rank).index_copy(0, order, rank)


def _by_component(value: Float[Tensor, "p"], plan: ChainPlan, graph: FactorGraph) -> Tensor:
    return value.new_zeros(graph.components).index_add(0, plan.owner, value)


def _turn(tables: Float[Tensor, "f s s"], link: Links) -> Float[Tensor, "f s s"]:
    if not bool(link.turned.any()):
        return tables
    return torch.where(link.turned[:, None, None], tables.transpose(1, 2), tables)


def _widen(scores: Tensor, axes: int, most: int, fill: float = 0.0) -> Tensor:
    """The same tables, their last axes filled up to the most states."""
    lacking = [n for size in reversed(scores.shape[-axes:]) for n in (0, most - size)]
    return pad(scores, lacking, value=fill) if any(lacking) else scores
