"""Tree-reweighted belief propagation: an upper bound on log Z from spanning trees.

Letters: e: edges, parallel ones each on their own; v: variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import connected_components, maximum_flow, minimum_spanning_tree
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import EXACT_RESIDUAL, BeliefPropagation, beliefs_at
from mrflearn.inference.beliefs import BeliefMethod, Beliefs, Kind
from mrflearn.inference.messages import Field

# Spanning forests of a graph, and how often an edge appears in them.


# Averaged over by `even_appearance`: enough that each edge's share is known to a percent.
FORESTS = 100
# Every subset of variables is checked up to this many variables times edges.
CHECKED_SIZE = 50_000
FLOW_UNIT = 2**20  # capacities are whole numbers: one unit of weight
TOLERANCE = 1e-5


EdgeWeights = Float[np.ndarray, " e"]


@dataclass(frozen=True, eq=False)
class SpanningEdges:
    """Edges of an undirected graph; an edge that is not `real` closes no cycle."""

    ends: Int[np.ndarray, "e 2"]
    real: Bool[np.ndarray, " e"]
    variables: int

    def cheapest_forest(self, cost: EdgeWeights) -> Bool[np.ndarray, " e"]:
        """Which edges are in the spanning forest of least cost; costs must be positive."""
        chosen, real = ~self.real, np.flatnonzero(self.real)
        low, high = np.sort(self.ends[real], axis=1).T
        order = np.lexsort((cost[real], high, low))
        pairs, first = np.unique((low * self.variables + high)[order], return_index=True)
        cheapest = order[first]  # of parallel edges only one may enter
        ends = low[cheapest], high[cheapest]
        costs = sparse_graph(cost[real][cheapest], *ends, self.variables)
        rows, columns = minimum_spanning_tree(costs).nonzero()
        entered = np.searchsorted(pairs, rows.astype(np.int64) * self.variables + columns)
        chosen[real[cheapest[entered]]] = True
        return chosen


def even_appearance(edges: SpanningEdges) -> EdgeWeights:
    """How often each edge appears in an even mixture of spanning forests; never 0.

    Each forest prefers the edges that came up least so far.  A mixture of forests is in the
    spanning-forest polytope by construction, whatever the graph.
    """
    count, forests = np.zeros(len(edges.ends)), 0
    while forests < FORESTS or (len(count) and count.min() == 0):
        chosen = edges.cheapest_forest(count + 1.0)
        if chosen.all():
            return np.ones(len(count))
        count += chosen
        forests += 1
    return count / forests


def heaviest_forest(edges: SpanningEdges, gain: EdgeWeights) -> EdgeWeights:
    """1 for the edges of a spanning forest of greatest total gain, 0 for the others."""
    top = gain.max(initial=0.0)
    return edges.cheapest_forest(top - gain + max(top, 1.0)).astype(np.float64)


def complaint(edges: SpanningEdges, weight: EdgeWeights) -> str | None:
    """Why weights are no appearance probabilities of spanning forests, or None.

    Always checked: the range, and that no connected piece holds more than its variables less one.
    Where variables times edges are at most 50,000, the same is checked of every subset of
    variables by one minimum cut for each of them, which is the whole of the forest polytope.
    """
    if weight.shape != (len(edges.ends),):
        return f"{weight.size} edge weights for {len(edges.ends)} pairwise factors; one each."
    outside = ~((weight > 0) & (weight <= 1))
    if outside.any():
        edge = int(np.nonzero(outside)[0][0])
        return f"edge weight {edge} is {weight[edge]:g}; each must be above 0 and at most 1."
    low, high = edges.ends[edges.real].T
    links = sparse_graph(np.ones(len(low)), low, high, edges.variables)
    _, piece = connected_components(links, directed=False)
    load = np.bincount(piece[edges.ends[edges.real, 0]], weight[edges.real], piece.max() + 1)
    room = np.bincount(piece) - 1
    if (load > room + TOLERANCE).any():
        worst = int(np.argmax(load - room))
        return (
            f"the edge weights of a connected piece of {room[worst] + 1} variables add up to "
            f"{load[worst]:g}; a forest has at most {room[worst]} edges there."
        )
    small = edges.variables * int(edges.real.sum()) <= CHECKED_SIZE
    return _overweight(edges, weight) if small else None


def _overweight(edges: SpanningEdges, weight: EdgeWeights) -> str | None:
    """A set of variables with more weight inside than a forest can have, in words, or None.

    [Padberg and Wolsey 1983]: choosing an edge earns its weight and needs both ends, which cost 1
    each, but for one end that is free; the best choice is the complement of a minimum cut.
    """
    ends, earn = edges.ends[edges.real], np.floor(weight[edges.real] * FLOW_UNIT)
    edge, variable = np.arange(len(ends)), np.arange(edges.variables)
    source, sink = len(ends) + len(variable), len(ends) + len(variable) + 1
    tails = [np.full_like(edge, source), edge, edge, len(ends) + variable]
    heads = [edge, *(len(ends) + ends.T), np.full_like(variable, sink)]
    arcs = np.concatenate(tails), np.concatenate(heads)
    for root in np.unique(ends):
        flows = [earn, np.full(2 * len(ends), FLOW_UNIT), FLOW_UNIT * (variable != root)]
        network = sparse_graph(np.concatenate(flows).astype(np.int32), *arcs, sink + 1)
        surplus = (earn.sum() - maximum_flow(network, source, sink).flow_value) / FLOW_UNIT
        if surplus > TOLERANCE:
            return (
                f"around variable {root} some variables have {surplus:.3g} more edge weight among "
                "them than any mixture of forests can have (their number less one)."
            )
    return None


# Tree-reweighted belief propagation: an upper bound on log Z of pairwise fields.


@final
@dataclass(frozen=True, eq=False)
class TreeReweighted(BeliefMethod):
    """Convex combinations of spanning forests bound log Z from above [Wainwright et al. 2005].

    `edge_weights` are the probabilities that each pairwise factor appears in a random spanning
    forest, groups in order; by default a mixture of forests that treats edges as evenly as it can.
    Weights given are checked: see `spanning.complaint`.  `weight_steps` conditional-gradient steps
    move them towards the forests of highest mutual information, for a tighter bound.  The value is
    a bound at the fixed point only, so a run that did not converge is called an approximation; at
    the tolerance it is off by the square of what is left, far less than the bound's own gap.
    Forests are exact.
    """

    edge_weights: Float[Tensor, " e"] | None = None
    max_sweeps: int = 1000
    tolerance: float = 1e-7
    damping: float = 0.5
    weight_steps: int = 0
    warm_starts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        BeliefPropagation(self.max_sweeps, self.tolerance, self.damping)  # checks them
        if self.weight_steps < 0:
            raise InferenceError("weight_steps must not be negative.")

    def refuses(self, graph: FactorGraph) -> str | None:
        for group in graph.groups:
            if len(group) and group.arity > 2:
                return (
                    f"group '{group.name}' has factors of {group.arity} variables; tree-reweighted "
                    "belief propagation takes at most 2. Try BeliefPropagation() or MeanField()."
                )
        return None

    def _beliefs(self, potentials: Potentials, warm: Float[Tensor, " m"] | None) -> Beliefs:
        potentials.check_numbers()
        edges, weight = edges_of(potentials.graph), self._start(potentials.graph)
        best = found = self._at(potentials, weight, warm)
        for step in range(self.weight_steps):
            gain = mutual_information(potentials.graph, found)
            # The bound is convex in the weights and its gradient there is minus the mutual
            # information [Wainwright et al. 2005, section V]; no weight ever becomes 0.
            rate = 1.0 / (step + 3)
            weight = (1 - rate) * weight + rate * heaviest_forest(edges, gain)
            found = self._at(potentials, weight, found.warm)
            if found.converged and float((found.log_partition - best.log_partition).sum()) < 0:
                best = found
        return best

    def _start(self, graph: FactorGraph) -> EdgeWeights:
        if self.edge_weights is None:
            return graph.planned(_even_weights)
        weight = np.asarray(torch.as_tensor(self.edge_weights).cpu(), dtype=np.float64)
        problem = complaint(edges_of(graph), weight)
        if problem is not None:
            raise InferenceError(f"{problem} Leave edge_weights out to have valid ones made.")
        return weight

    def _at(self, potentials: Potentials, weight: EdgeWeights, messages: Tensor | None) -> Beliefs:
        """Beliefs with the given appearance probabilities."""
        field = Field.of(potentials, torch.from_numpy(weight))
        forest = bool((weight == 1).all())  # weights of 1 throughout are valid on forests only
        damping = 0.0 if forest else self.damping
        passing = BeliefPropagation(self.max_sweeps, self.tolerance, damping)
        rest = passing.fixed_point(field, messages, torch.logsumexp)
        kind: Kind = "upper bound" if rest.converged else "approximation"
        if rest.converged and forest and rest.residual <= EXACT_RESIDUAL:
            kind = "exact"
        return beliefs_at(potentials, field, rest, kind)


def _even_weights(graph: FactorGraph) -> EdgeWeights:
    return even_appearance(edges_of(graph))


def edges_of(graph: FactorGraph) -> SpanningEdges:
    """The pairwise factors of a graph; those with a one-state end close no cycle."""
    scopes = [group.scope.cpu() for group in graph.groups if len(group) and group.arity == 2]
    ends = torch.cat([torch.empty(0, 2, dtype=torch.int64), *scopes])
    real = (graph.states.cpu()[ends] > 1).all(dim=1)
    return SpanningEdges(ends.numpy(), real.numpy(), graph.variables)


def mutual_information(graph: FactorGraph, beliefs: Beliefs) -> EdgeWeights:
    """The mutual information, in nats, between the ends of every pairwise factor."""
    found = [np.empty(0)]
    for group, belief in zip(graph.groups, beliefs.factors, strict=True):
        if len(group) and group.arity == 2:
            apart = belief.sum(2, keepdim=True) * belief.sum(1, keepdim=True)
            terms = torch.where(belief > 0, belief * torch.log(belief / apart), 0.0)
            found.append(terms.sum(dim=(1, 2)).clamp(min=0.0).cpu().double().numpy())
    return np.concatenate(found)
