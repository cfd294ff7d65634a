"""Exact inference where the width allows, belief propagation where it does not: the one policy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.beliefs import Beliefs, Decoding
from mrflearn.inference.chain import Chain
from mrflearn.inference.junction_tree import JunctionTree

Choice = Chain | JunctionTree | BeliefPropagation

EXACT = JunctionTree()  # within its default limit on memory
# One answer, on a network that may be hard: messages of strong couplings circle without damping.
LOOPY = BeliefPropagation(max_sweeps=2000, tolerance=1e-8, damping=0.5)
# Thousands of answers, on fields under training or their like, mostly from a warm start.
LOOPY_IN_TRAINING = BeliefPropagation(max_sweeps=500, tolerance=1e-7, damping=0.2)


@dataclass(frozen=True)
class Automatic:
    """Recursions along chains where every connected part is a path; else `exact`, else messages.

    `exact` is elimination within its limit on memory, `otherwise` belief propagation.
    """

    exact: JunctionTree = EXACT
    otherwise: BeliefPropagation = LOOPY

    @property
    def warm_starts(self) -> bool:
        return self.otherwise.warm_starts

    def refuses(self, graph: FactorGraph) -> str | None:
        """Only what belief propagation refuses too."""
        return self.chosen(graph)[0].refuses(graph)

    def chosen(self, graph: FactorGraph) -> tuple[Choice, str | None]:
        """The method that answers for this graph, and why it is not exact (None: it is)."""
        chain = Chain()
        if chain.refuses(graph) is None:
            return chain, None
        reason = self.exact.refuses(graph)
        return (self.exact, None) if reason is None else (self.otherwise, reason)

    def __call__(self, potentials: Potentials, warm: Tensor | None = None) -> Beliefs:
        return self.chosen(potentials.graph)[0](potentials, warm)

    def best(self, potentials: Potentials) -> Decoding:
        return self.chosen(potentials.graph)[0].best(potentials)
