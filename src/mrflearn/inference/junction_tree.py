"""Exact inference where the graph has a small width: log Z, marginals, best states, samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.execution.threads import one_thread
from mrflearn.graph.clique_plan import Plan, planned
from mrflearn.graph.elimination_orders import TooWide
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.graph.replicas import Replicas
from mrflearn.inference.beliefs import (
    Beliefs,
    Decoding,
    insist,
    insist_possible,
    with_gradient,
)
from mrflearn.inference.clique_tree import CliqueTree
from mrflearn.kernels.table_algebra import SUM_PRODUCT, sum_out

GIB = 2**30


@final
@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Exact answers by eliminating variables one by one, within a limit on memory (in bytes).

    Components of one structure are worked on together, as many at a time as the limit allows.
    """

    memory_limit: int = 4 * GIB

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be handled: the width found and the memory it would take."""
        if graph.is_lifted():
            return (
                "the junction tree works on ground graphs, but some variables here stand for "
                "several copies. Use a lifted inference, or build the ground graph."
            )
        for plan, replicas in planned(graph):
            reason = self._too_much(plan)
            if reason:
                return (
                    f"component {int(replicas.components[0])} is too wide for exact inference: "
                    f"{reason}; the limit is {_size(self.memory_limit)} (memory_limit). "
                    "Raise it, or try BeliefPropagation() for an approximation."
                )
        return None

    def _too_much(self, plan: Plan | TooWide) -> str | None:
        if isinstance(plan, TooWide):
            size = _size(8 * 2 ** min(plan.log2_entries, 64.0))
            return (
                f"every elimination order tried meets a table over {plan.variables} variables "
                f"or more ({size})"
            )
        needed = plan.entries * 8
        if needed <= self.memory_limit:
            return None
        return f"width {plan.elimination.width} was found, which takes {_size(needed)}"

    @one_thread()
    @torch.no_grad()
    def __call__(self, potentials: Potentials) -> Beliefs:
        """Exact log Z, variable marginals and factor beliefs."""
        insist(self, potentials.graph)
        graph = potentials.graph
        scores = [potentials.factor_scores(i) for i in range(len(graph.groups))]
        value = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
        variables = value.new_zeros(graph.variables, graph.most_states)
        factors = tuple(torch.zeros_like(score) for score in scores)
        for plan, replicas in self._portions(graph, value.element_size()):
            tree = _tree(plan, replicas, scores, value)
            messages, log_partition = tree.collect()
            value[replicas.components] = log_partition
            # Where one part of a component is impossible, so are the parts not joined to it.
            possible = (log_partition > -torch.inf).to(value.dtype)
            for k, packs in tree.distribute(messages):
                marginal = packs[0].reshape(len(packs[0]), -1, len(possible)).sum(dim=1) * possible
                members = replicas.variables[:, plan.elimination.order[k]]
                variables[members, : len(marginal)] = marginal.T
                for (axes, inside), belief in zip(plan.steps[k].packs, packs, strict=True):
                    for factor in inside:
                        _deliver(plan, replicas, factor, (belief * possible, axes), factors)
        with torch.enable_grad():
            return with_gradient(potentials, Beliefs(value, variables, factors, kind="exact"))

    @one_thread()
    @torch.no_grad()
    def best(self, potentials: Potentials) -> Decoding:
        """The assignment of highest score."""
        insist(self, potentials.graph)
        assignment = self._trace(potentials, 1, None)[0]
        return Decoding(assignment, potentials.score(assignment), kind="exact")

    @one_thread()
    @torch.no_grad()
    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """Independent exact samples of every component."""
        insist(self, potentials.graph)
        return self._trace(potentials, count, generator)

    def _trace(
        self, potentials: Potentials, count: int, generator: torch.Generator | None
    ) -> Int[Tensor, "n v"]:
        """Sampled assignments, or the best one where there is no generator."""
        graph = potentials.graph
        scores = [potentials.factor_scores(i) for i in range(len(graph.groups))]
        like = torch.zeros(0, dtype=potentials.dtype, device=graph.device)
        states = torch.zeros(count, graph.variables, dtype=torch.int64, device=graph.device)
        for plan, replicas in self._portions(graph, like.element_size()):
            tree = _tree(plan, replicas, scores, like)
            if generator is None:
                messages = tree.collect_best()
            else:
                messages, log_partition = tree.collect()
                insist_possible(log_partition, replicas.components)
            chosen = tree.trace(messages, count, lambda odds: _choose(odds, generator))
            states[:, replicas.variables.T] = chosen
        return states

    def _portions(self, graph: FactorGraph, itemsize: int) -> Iterator[tuple[Plan, Replicas]]:
        """Components of one structure, as many together as memory allows, and their plan."""
        for plan, replicas in planned(graph):
            assert isinstance(plan, Plan)  # noqa: S101 - refused before otherwise
            portion = max(1, self.memory_limit // max(1, plan.entries * itemsize))
            for start in range(0, len(replicas.components), portion):
                yield plan, replicas.part(start, start + portion)


def _size(count: float) -> str:
    """Bytes as people say them."""
    if count >= 2**60:
        return "more than any machine has"
    units = {"TiB": 2**40, "GiB": GIB, "MiB": 2**20}
    unit = next((name for name, size in units.items() if count >= size), "MiB")
    return f"{count / units[unit]:,.1f} {unit}"


def _tree(
    plan: Plan, replicas: Replicas, scores: list[Float[Tensor, "f *shape"]], like: Tensor
) -> CliqueTree:
    """The clique tree of n replicas, their factors' axes ascending and the replicas last."""
    factors: list[Tensor] = []
    for index, column in replicas.places:
        own = scores[index][replicas.factors[index][:, column]]
        order = plan.orders[len(factors)]
        factors.append(own.permute(*(1 + axis for axis in order), 0))
    return CliqueTree.build(plan, factors, like.new_empty(len(replicas.components)))


def _deliver(
    plan: Plan,
    replicas: Replicas,
    factor: int,
    belief: tuple[Float[Tensor, "*sizes n"], tuple[int, ...]],
    beliefs: tuple[Float[Tensor, "f *shape"], ...],
) -> None:
    """Writes the belief of one factor, from that of its pack, where the graph has it."""
    table, axes = belief
    index, column = replicas.places[factor]
    own = sum_out(SUM_PRODUCT, table, axes, table.shape[:-1], plan.factor_axes[factor])
    order = plan.orders[factor]
    ascending = [beliefs[index].shape[1 + axis] for axis in order]
    back = sorted(range(len(order)), key=lambda i: order[i])
    own = own.reshape(*ascending, own.shape[-1]).permute(-1, *back)
    beliefs[index][replicas.factors[index][:, column]] = own


def _choose(odds: Float[Tensor, "s count n"], generator: torch.Generator | None) -> Tensor:
    """The best state or, with a generator, one at random by its log-odds."""
    if generator is None:
        return odds.argmax(dim=0)
    rising = (odds - odds.amax(dim=0)).exp().cumsum(dim=0)
    point = torch.rand(
        rising.shape[1:], dtype=rising.dtype, generator=generator, device=generator.device
    )
    return (rising <= point.to(rising.device) * rising[-1]).sum(dim=0)
