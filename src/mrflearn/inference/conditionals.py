"""Scores of one variable's states given all others, for many variables and many chains at once.

Variables that share no factor get one colour and are treated together.  Chains come last in every
tensor, so that gathers copy long contiguous rows.  Letters: n: chains; k: variables of one colour
(or factors around them); r: rows of a table, one for each setting of the other variables.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.wiring import Wiring, real_links


@dataclass(frozen=True, eq=False)
class Facet:
    """Factors of one group seen from one axis, whose variables there have one colour."""

    rows: Float[Tensor, "s r"]  # their tables, the axis first, all else in one row
    first: Int[Tensor, "k 1"]  # where the rows of each factor's table begin
    others: tuple[tuple[Int[Tensor, "k"], int], ...]  # the other variables, and their strides
    weight: Float[Tensor, "k 1"]  # multiplicities
    position: Int[Tensor, "k"]  # of the factor's variable in the colour
    component: Int[Tensor, "k"]
    axis: int

    def row(self, states: Int[Tensor, "v n"]) -> Int[Tensor, "k n"]:
        """Which row each factor reads, given the states of its other variables."""
        row = self.first.expand(-1, states.shape[1])
        for variables, stride in self.others:
            row = row + stride * states[variables]
        return row

    def read(self, states: Int[Tensor, "v n"]) -> Float[Tensor, "s k n"]:
        """The scores of every state on this axis, the other variables being as they are."""
        row = self.row(states)
        values = self.rows.index_select(1, row.reshape(-1))
        return values.view(-1, *row.shape).mul_(self.weight)

    def read_at(self, states: Int[Tensor, "v n"], own: Int[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        """The scores where this axis is as it is, too."""
        place = own * self.rows.shape[1] + self.row(states)
        return self.rows.view(-1)[place] * self.weight


@dataclass(frozen=True, eq=False)
class Colour:
    """Variables that share no factor, their unary scores, and the factors around them."""

    variables: Int[Tensor, "k"]
    bias: Float[Tensor, "s k 1"]  # -inf beyond a variable's own states
    facets: tuple[Facet, ...]

    def scores(self, states: Int[Tensor, "v n"], share: float = 1.0) -> Float[Tensor, "s k n"]:
        """`share` times the scores of every state given all others."""
        total = self.bias.new_zeros(*self.bias.shape[:2], states.shape[1])
        for facet in self.facets:
            total[: len(facet.rows)].index_add_(1, facet.position, facet.read(states))
        return total.add_(self.bias).mul_(share)


@dataclass(frozen=True, eq=False)
class Conditionals:
    """A field, arranged by colours."""

    graph: FactorGraph
    bias: Float[Tensor, "v s"]
    colours: tuple[Colour, ...]

    @classmethod
    def of(cls, potentials: Potentials) -> Conditionals:
        """The field's tables, laid out by the colours of its variables."""
        graph, wiring = potentials.graph, Wiring.of(potentials.graph)
        bias = wiring.padded(wiring.bias(potentials), -torch.inf)
        number = colouring(graph)
        colours = []
        for colour in range(int(number.max()) + 1 if len(number) else 0):
            variables = (number == colour).nonzero().squeeze(1)
            facets = _facets(potentials, wiring.senders, variables)
            colours.append(Colour(variables, bias[variables].T.unsqueeze(2).contiguous(), facets))
        return cls(graph, bias, tuple(colours))

    def score(self, states: Int[Tensor, "v n"]) -> Float[Tensor, "c n"]:
        """The unnormalised log-probability of every chain's states by component, in float64."""
        size = self.graph.components, states.shape[1]
        total = self.bias.new_zeros(size, dtype=torch.float64)
        total.index_add_(0, self.graph.component, self.bias.gather(1, states).double())
        for colour in self.colours:
            for facet in colour.facets:
                if facet.axis == 0:  # each factor is seen from all its axes, and counts once
                    own = states[colour.variables[facet.position]]
                    total.index_add_(0, facet.component, facet.read_at(states, own).double())
        return total

    def sweep(
        self, states: Int[Tensor, "v n"], generator: torch.Generator, share: float = 1.0
    ) -> None:
        """Every variable of every chain drawn anew, in place, colour by colour."""
        for colour in self.colours:
            scores = colour.scores(states, share)
            states[colour.variables] = draw(scores, states[colour.variables], generator)

    def independent(
        self, chains: int, generator: torch.Generator, share: float = 1.0
    ) -> Int[Tensor, "v n"]:
        """States drawn from `share` times the unary scores alone; 0 where these allow none."""
        bias = (self.bias * share).masked_fill(self.bias == -torch.inf, -torch.inf)
        scores = bias.T.unsqueeze(2).expand(-1, -1, chains)
        zeros = torch.zeros(scores.shape[1:], dtype=torch.int64, device=scores.device)
        return draw(scores, zeros, generator)


def _facets(
    potentials: Potentials, senders: tuple[int, ...], variables: Int[Tensor, "k"]
) -> tuple[Facet, ...]:
    graph, facets = potentials.graph, []
    position = torch.full((graph.variables,), -1, device=graph.device)
    position[variables] = torch.arange(len(variables), device=graph.device)
    for index in senders:
        group, table = graph.groups[index], potentials.tables[index].dense().detach()
        for axis in range(group.arity):
            own = (position[group.scope[:, axis]] >= 0).nonzero().squeeze(1)
            if not len(own):
                continue
            # Only the tables that are read here: all of them, at every colour, would be many.
            used, number = group.table[own].unique(return_inverse=True)
            rows = table[used].movedim(axis + 1, 0)
            sizes = list(rows.shape[2:])
            strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
            scope = group.scope[own]
            rest = [scope[:, other] for other in range(group.arity) if other != axis]
            facets.append(
                Facet(
                    rows.reshape(len(rows), -1).contiguous(),
                    number.unsqueeze(1) * math.prod(sizes),
                    tuple(zip(rest, strides, strict=True)),
                    group.multiplicity[own].to(table.dtype).unsqueeze(1),
                    position[scope[:, axis]],
                    graph.component[scope[:, axis]],
                    axis,
                )
            )
    return tuple(facets)


def colouring(graph: FactorGraph) -> Int[Tensor, "v"]:
    """A colour for every variable, so that none shares a factor with another of its colour.

    Greedy, in breadth-first order: two colours for any graph without odd cycles.  Variables of one
    state never change and may share colours with anyone.
    """
    variables, factors, count = real_links(graph)
    ones = np.ones(len(variables), dtype=np.int64)
    links = coo_array((ones, (variables, factors)), (graph.variables, count)).tocsr()
    near = (links @ links.T).tocsr()
    starts, neighbours = near.indptr.tolist(), near.indices.tolist()
    colour = [-1] * graph.variables
    for root in range(graph.variables):
        queue = deque([root] if colour[root] < 0 else [])
        while queue:
            v = queue.popleft()
            if colour[v] >= 0:
                continue
            around = neighbours[starts[v] : starts[v + 1]]
            taken = {colour[u] for u in around}
            colour[v] = next(c for c in itertools.count() if c not in taken)
            queue.extend(u for u in around if colour[u] < 0)
    return torch.tensor(colour, dtype=torch.int64, device=graph.device)


def draw(
    scores: Float[Tensor, "s k n"], current: Int[Tensor, "k n"], generator: torch.Generator
) -> Int[Tensor, "k n"]:
    """States in proportion to exp(scores); the current ones where every score is -inf."""
    peak = scores.amax(0)
    dead = peak == -torch.inf
    weight = (scores - peak.masked_fill(dead, 0.0)).exp_().cumsum(0)
    uniform = torch.rand(peak.shape, generator=generator, dtype=peak.dtype, device=peak.device)
    # Rounding must not lift the threshold to the whole sum, nor may it meet an empty state at 0.
    threshold = uniform * weight[-1] * (1 - 4 * torch.finfo(peak.dtype).eps)
    return torch.where(dead, current, (weight <= threshold).sum(0))
