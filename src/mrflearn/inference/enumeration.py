"""The oracle: every assignment of every component, written out.  Slow, and obviously right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import (
    BeliefMethod,
    Beliefs,
    Decoding,
    Sampler,
    insist,
    insist_possible,
    zero_beliefs,
)


@final
@dataclass(frozen=True, slots=True)
class Enumeration(BeliefMethod, Sampler):
    """Exact answers by listing at most `most_assignments` assignments of each component.

    Sums are taken in float64 whatever the type of the potentials.
    """

    most_assignments: int = 2**20

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be enumerated (and what to try instead), or None."""
        digits = torch.zeros(graph.components, dtype=torch.float64, device=graph.device)
        digits = digits.index_add(0, graph.component, graph.states.to(torch.float64).log10())
        worst = int(digits.argmax())
        if float(digits[worst]) <= math.log10(self.most_assignments) + 1e-9:
            return None
        return (
            f"component {worst} has about 10^{float(digits[worst]):.1f} assignments; enumeration "
            f"stops at {self.most_assignments}. Try JunctionTree() if the graph has a small width, "
            "or BeliefPropagation() for an approximation."
        )

    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        graph, found = potentials.graph, zero_beliefs(potentials)
        for component, listing in enumerate(_listings(potentials)):
            found.log_partition[component] = listing.scores.logsumexp(dim=0)
            weights = _normalised(listing.scores)
            for v in listing.members:
                states = listing.states[:, v]
                found.variables[v] = torch.bincount(states, weights, minlength=graph.most_states)
            for index, i in listing.factors:
                own = found.factors[index][i]
                cells = _cells(listing.states[:, graph.groups[index].scope[i]], own.shape)
                own[:] = torch.bincount(cells, weights, minlength=own.numel()).reshape(own.shape)
        return found

    def best(self, potentials: Potentials) -> Decoding:
        """The assignment of highest score (the first of equals)."""
        assignments, scores = self.n_best(potentials, 1)
        return Decoding(assignments[0], scores[0], kind="exact")

    @torch.no_grad()
    def n_best(
        self, potentials: Potentials, count: int
    ) -> tuple[Int[Tensor, "n v"], Float[Tensor, "n c"]]:
        """The `count` best assignments of each component and their scores, best first.

        A component with fewer assignments than that ends in zeros with scores of -inf.
        """
        insist(self, potentials.graph)
        graph = potentials.graph
        assignments = torch.zeros(count, graph.variables, dtype=torch.int64, device=graph.device)
        shape = count, graph.components
        scores = torch.full(shape, -torch.inf, dtype=potentials.dtype, device=graph.device)
        for component, listing in enumerate(_listings(potentials)):
            ranked, rows = listing.scores.sort(descending=True, stable=True)
            found = min(count, len(rows))
            assignments[:found, listing.members] = listing.states[rows[:found]][:, listing.members]
            scores[:found, component] = ranked[:found].to(scores.dtype)
        return assignments, scores

    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        graph = potentials.graph
        samples = torch.zeros(count, graph.variables, dtype=torch.int64, device=graph.device)
        for component, listing in enumerate(_listings(potentials)):
            rising = _normalised(listing.scores).cumsum(dim=0)
            insist_possible(rising[-1:].log(), torch.tensor([component]))
            point = torch.empty(count, dtype=rising.dtype, device=generator.device)
            point = point.uniform_(generator=generator).to(rising)
            # The first row whose running total exceeds the point has a positive probability.
            rows = torch.searchsorted(rising, point * rising[-1], right=True)
            samples[:, listing.members] = listing.states[rows][:, listing.members]
        return samples


class _Listing(NamedTuple):
    """All n assignments of one component, 0 at the variables of others, and their scores."""

    members: list[int]
    factors: list[tuple[int, int]]  # (group, factor within it)
    states: Int[Tensor, "n v"]
    scores: Float[Tensor, " n"]


def _listings(potentials: Potentials) -> Iterator[_Listing]:
    graph = potentials.graph
    scores = [potentials.factor_scores(i).double() for i in range(len(graph.groups))]
    owners = [graph.component_of(group) for group in graph.groups]
    for component in range(graph.components):
        members = (graph.component == component).nonzero().squeeze(1).tolist()
        counts = graph.states[members]
        rows = torch.arange(math.prod(counts.tolist()), device=graph.device)
        below = counts.flip(0).cumprod(dim=0).flip(0) // counts
        states = rows.new_zeros(len(rows), graph.variables)
        states[:, members] = rows.unsqueeze(-1) // below % counts  # the last changes fastest
        total = torch.zeros(len(rows), dtype=torch.float64, device=graph.device)
        factors = []
        for index, (group, owner) in enumerate(zip(graph.groups, owners, strict=True)):
            for i in (owner == component).nonzero().squeeze(1).tolist():
                own = scores[index][i]
                total += own.flatten()[_cells(states[:, group.scope[i]], own.shape)]
                factors.append((index, i))
        yield _Listing(members, factors, states, total)


def _cells(states: Int[Tensor, "n a"], shape: tuple[int, ...]) -> Int[Tensor, " n"]:
    """Where each row falls in a flattened table of this shape."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return (states * torch.tensor(strides, device=states.device)).sum(dim=1)


def _normalised(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Probabilities; all zero where every score is -inf."""
    return scores.softmax(dim=0).nan_to_num(nan=0.0)
