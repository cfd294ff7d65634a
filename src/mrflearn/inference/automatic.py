"""Exact inference where the width allows, belief propagation where it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.beliefs import Beliefs, Decoding, Inference
from mrflearn.inference.junction_tree import JunctionTree


@dataclass(frozen=True)
class Automatic:
    """Asks `exact` first and falls back on `otherwise`; `refusal` says why, so that users know."""

    exact: JunctionTree = field(default_factory=JunctionTree)
    otherwise: BeliefPropagation = field(
        default_factory=lambda: BeliefPropagation(max_sweeps=2000, tolerance=1e-8, damping=0.5)
    )

    @property
    def warm_starts(self) -> bool:
        return self.otherwise.warm_starts

    def refuses(self, graph: FactorGraph) -> str | None:
        """Only what belief propagation refuses too."""
        return self.otherwise.refuses(graph) if self.refusal(graph) else None

    def refusal(self, graph: FactorGraph) -> str | None:
        """Why the exact method will not be used, or None."""
        return self.exact.refuses(graph)

    def chosen(self, graph: FactorGraph) -> Inference:
        """The method that answers for this graph."""
        return self.exact if self.refusal(graph) is None else self.otherwise

    def __call__(self, potentials: Potentials, warm: Tensor | None = None) -> Beliefs:
        return self.chosen(potentials.graph)(potentials, warm)

    def best(self, potentials: Potentials) -> Decoding:
        exact = self.refusal(potentials.graph) is None
        return (self.exact if exact else self.otherwise).best(potentials)
