"""The oracle: every assignment of every component, written out.  Slow, and obviously right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import (
    Beliefs,
    Decoding,
    insist,
    insist_possible,
    with_gradient,
)


@final
@dataclass(frozen=True, slots=True)
class Enumeration:
    """Exact answers by listing at most `most_assignments` assignments of each component.

    Sums are taken in float64 whatever the type of the potentials.
    """

    most_assignments: int = 2**20
    warm_starts: ClassVar[bool] = False

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be enumerated (and what to try instead), or None."""
        digits = torch.zeros(graph.components, dtype=torch.float64, device=graph.device)
        digits = digits.index_add(0, graph.component, graph.states.to(torch.float64).log10())
        worst = int(digits.argmax())
        if float(digits[worst]) <= math.log10(self.most_assignments) + 1e-9:
            return None
        return (
            f"component {worst} has about 10^{float(digits[worst]):.1f} assignments; enumeration "
            f"was told to stop at {self.most_assignments}. Try JunctionTree() if the graph has "
            "a small width, or BeliefPropagation() for an approximation."
        )

    @torch.no_grad()
    def __call__(
        self,
        potentials: Potentials,
        warm: Tensor | None = None,  # noqa: ARG002 - nothing to start from
    ) -> Beliefs:
        """Exact log Z, variable marginals and factor beliefs."""
        insist(self, potentials.graph)
        graph = potentials.graph
        value = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
        variables = value.new_zeros(graph.variables, graph.most_states)
        factors = tuple(
            torch.zeros_like(potentials.factor_scores(i)) for i in range(len(graph.groups))
        )
        for component, listing in enumerate(_listings(potentials)):
            value[component] = listing.scores.logsumexp(dim=0)
            probability = _normalised(listing.scores)
            for v in listing.members:
                variables[v] = listing.total(probability, [v], (graph.most_states,))
            for index, i in listing.factors:
                scope = graph.groups[index].scope[i].tolist()
                factors[index][i] = listing.total(probability, scope, factors[index].shape[1:])
        with torch.enable_grad():
            return with_gradient(potentials, Beliefs(value, variables, factors, kind="exact"))

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
        scores = torch.full(
            (count, graph.components), -torch.inf, dtype=potentials.dtype, device=graph.device
        )
        for component, listing in enumerate(_listings(potentials)):
            ranked, rows = listing.scores.sort(descending=True, stable=True)
            found = min(count, len(rows))
            assignments[:found, listing.members] = listing.states[rows[:found]]
            scores[:found, component] = ranked[:found].to(scores.dtype)
        return assignments, scores

    @torch.no_grad()
    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """Independent exact samples of every component."""
        insist(self, potentials.graph)
        graph = potentials.graph
        samples = torch.zeros(count, graph.variables, dtype=torch.int64, device=graph.device)
        for component, listing in enumerate(_listings(potentials)):
            rising = _normalised(listing.scores).cumsum(dim=0)
            insist_possible(rising[-1:].log(), torch.tensor([component]))
            point = torch.rand(
                count, dtype=torch.float64, generator=generator, device=generator.device
            ).to(rising)
            # The first row whose running total exceeds the point has a positive probability.
            rows = torch.searchsorted(rising, point * rising[-1], right=True)
            samples[:, listing.members] = listing.states[rows]
        return samples


@dataclass(frozen=True, eq=False)
class _Listing:
    """All n assignments of one component: its m variables, their states row by row, the scores."""

    members: list[int]
    factors: list[tuple[int, int]]  # (group, factor within it)
    states: Int[Tensor, "n m"]
    scores: Float[Tensor, " n"]

    def total(
        self, weights: Float[Tensor, " n"], scope: list[int], shape: tuple[int, ...]
    ) -> Float[Tensor, "*shape"]:
        """The weights of all rows, added up by the states of the variables of a scope."""
        cells = _cells(self.states, [self.members.index(v) for v in scope], shape)
        return torch.bincount(cells, weights, minlength=math.prod(shape)).reshape(shape)


def _listings(potentials: Potentials) -> Iterator[_Listing]:
    graph = potentials.graph
    scores = [potentials.factor_scores(i).double() for i in range(len(graph.groups))]
    members: list[list[int]] = [[] for _ in range(graph.components)]
    for variable, component in enumerate(graph.component.tolist()):
        members[component].append(variable)
    factors: list[list[tuple[int, int]]] = [[] for _ in range(graph.components)]
    for index, group in enumerate(graph.groups):
        for i, component in enumerate(graph.component_of(group).tolist()):
            factors[component].append((index, i))
    for inside, touching in zip(members, factors, strict=True):
        states = _all_assignments(graph.states[inside])
        total = torch.zeros(len(states), dtype=torch.float64, device=graph.device)
        for index, i in touching:
            columns = [inside.index(v) for v in graph.groups[index].scope[i].tolist()]
            total += scores[index][i].flatten()[_cells(states, columns, scores[index].shape[1:])]
        yield _Listing(inside, touching, states, total)


def _all_assignments(counts: Int[Tensor, " m"]) -> Int[Tensor, "n m"]:
    """Every assignment once, the last variable changing fastest."""
    rows = torch.arange(math.prod(counts.tolist()), device=counts.device)
    below = counts.flip(0).cumprod(dim=0).flip(0) // counts
    return rows.unsqueeze(-1) // below % counts


def _cells(
    states: Int[Tensor, "n m"], columns: list[int], shape: tuple[int, ...]
) -> Int[Tensor, " n"]:
    """Where each row falls in a flattened table over some of the variables."""
    cells = torch.zeros(len(states), dtype=torch.int64, device=states.device)
    for column, size in zip(columns, shape, strict=True):
        cells = cells * size + states[:, column]
    return cells


def _normalised(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Probabilities; all zero where every score is -inf."""
    value = scores.logsumexp(dim=0)
    return torch.zeros_like(scores) if bool(value == -torch.inf) else (scores - value).exp()
