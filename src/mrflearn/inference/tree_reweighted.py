"""Tree-reweighted belief propagation: an upper bound on log Z of pairwise fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, Kind, insist, with_gradient
from mrflearn.inference.bethe import beliefs_at
from mrflearn.inference.fixed_point import EXACT_RESIDUAL, Passing, Rest
from mrflearn.inference.message_field import Field, Messages
from mrflearn.inference.spanning import Edges, complaint, even_appearance, heaviest_forest
from mrflearn.inference.wiring import Wiring, refuse_lifted


@final
@dataclass(frozen=True, eq=False)
class TreeReweighted:
    """Convex combinations of spanning forests bound log Z from above [Wainwright et al. 2005].

    `edge_weights` are the probabilities that each pairwise factor appears in a random spanning
    forest, groups in order; by default a mixture of forests that treats edges as evenly as it can.
    Weights given are checked: see `spanning.complaint`.  `weight_steps` conditional-gradient steps
    move them towards the forests of highest mutual information, for a tighter bound.  The value is
    a bound at the fixed point only, so a run that did not converge is called an approximation; at
    the tolerance it is off by the square of what is left, far less than the bound's own gap.
    Forests are exact.
    """

    edge_weights: Float[Tensor, "e"] | None = None
    max_sweeps: int = 1000
    tolerance: float = 1e-7
    damping: float = 0.5
    weight_steps: int = 0

    def __post_init__(self) -> None:
        self._passing()  # complains about impossible settings at once
        if self.weight_steps < 0:
            raise InferenceError("weight_steps must not be negative.")

    def refuses(self, graph: FactorGraph) -> str | None:
        for group in graph.groups:
            if len(group) and group.arity > 2:
                return (
                    f"group '{group.name}' has factors of {group.arity} variables; tree-reweighted "
                    "belief propagation takes at most 2. Try BeliefPropagation() or MeanField()."
                )
        return refuse_lifted(graph, "tree-reweighted belief propagation")

    def __call__(self, potentials: Potentials) -> Beliefs:
        insist(self, potentials.graph)
        potentials.check_numbers()
        with torch.no_grad():
            beliefs = self._bound(potentials)
        return with_gradient(potentials, beliefs)

    def _bound(self, potentials: Potentials) -> Beliefs:
        wiring = Wiring.of(potentials.graph)
        edges = edges_of(potentials.graph)
        weight = self._start(edges)
        best, messages = self._at(potentials, wiring, weight, None)
        found = best
        for step in range(self.weight_steps):
            gain = mutual_information(potentials.graph, found)
            # The bound is convex in the weights and its gradient there is minus the mutual
            # information [Wainwright et al. 2005, section V]; no weight ever becomes 0.
            rate = 1.0 / (step + 3)
            weight = (1 - rate) * weight + rate * heaviest_forest(edges, gain)
            found, messages = self._at(potentials, wiring, weight, messages)
            if found.converged and float((found.log_partition - best.log_partition).sum()) < 0:
                best = found
        return best

    def _start(self, edges: Edges) -> Float[np.ndarray, "e"]:
        if self.edge_weights is None:
            return even_appearance(edges)
        weight = np.asarray(torch.as_tensor(self.edge_weights).cpu(), dtype=np.float64)
        problem = complaint(edges, weight)
        if problem is not None:
            raise InferenceError(f"{problem} Leave edge_weights out to have valid ones made.")
        return weight

    def _at(
        self,
        potentials: Potentials,
        wiring: Wiring,
        weight: Float[np.ndarray, "e"],
        messages: Messages | None,
    ) -> tuple[Beliefs, Messages]:
        """Beliefs and messages with the given appearance probabilities."""
        bias = wiring.bias(potentials)
        sizes = [len(potentials.graph.groups[index]) for index in wiring.senders]
        rho = list(torch.from_numpy(weight).to(bias).split(sizes))
        tables = [t / r for t, r in zip(wiring.tables(potentials), rho, strict=True)]
        field = Field(wiring, bias, tables, wiring.spread(rho))
        forest = bool((weight == 1).all())  # weights of 1 throughout are valid on forests only
        passing = replace(self._passing(), damping=0.0) if forest else self._passing()
        rest = passing(field, messages, torch.logsumexp)
        kind = _kind(rest, exact=forest)
        return beliefs_at(potentials, field, rest, kind), Messages(rest.messages)

    def _passing(self) -> Passing:
        return Passing(self.max_sweeps, self.tolerance, self.damping, "flooding")


def _kind(rest: Rest, *, exact: bool) -> Kind:
    if not rest.converged:
        return "approximation"
    return "exact" if exact and rest.residual <= EXACT_RESIDUAL else "upper bound"


def edges_of(graph: FactorGraph) -> Edges:
    """The pairwise factors of a graph; those with a one-state end close no cycle."""
    scopes = [group.scope.cpu() for group in graph.groups if len(group) and group.arity == 2]
    ends = torch.cat([torch.empty(0, 2, dtype=torch.int64), *scopes])
    real = (graph.states.cpu()[ends] > 1).all(dim=1)
    return Edges(ends.numpy(), real.numpy(), graph.variables)


def mutual_information(graph: FactorGraph, beliefs: Beliefs) -> Float[np.ndarray, "e"]:
    """The mutual information, in nats, between the ends of every pairwise factor."""
    found = [np.empty(0)]
    for group, belief in zip(graph.groups, beliefs.factors, strict=True):
        if len(group) and group.arity == 2:
            apart = belief.sum(2, keepdim=True) * belief.sum(1, keepdim=True)
            terms = torch.where(belief > 0, belief * torch.log(belief / apart), 0.0)
            found.append(terms.sum(dim=(1, 2)).clamp(min=0.0).cpu().double().numpy())
    return np.concatenate(found)
