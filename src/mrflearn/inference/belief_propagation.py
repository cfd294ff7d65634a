"""Loopy belief propagation: sum-product marginals and max-product decoding on any factor graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, Decoding, Kind, insist, with_gradient
from mrflearn.inference.bethe import beliefs_at
from mrflearn.inference.decoding import climb, follow_messages
from mrflearn.inference.fixed_point import EXACT_RESIDUAL, Passing, Rest, Schedule
from mrflearn.inference.message_field import Field, Messages
from mrflearn.inference.starting import with_possible_states
from mrflearn.inference.wiring import Wiring, is_forest, refuse_lifted
from mrflearn.kernels.messages import Reduction


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Beliefs, and the messages they come from: a warm start for the next field on this graph."""

    beliefs: Beliefs
    messages: Messages


@final
@dataclass(frozen=True)
class BeliefPropagation:
    """Passes log-messages until they change by less than `tolerance`, or for `max_sweeps`.

    `damping` is the share of the old log-message that an update keeps.  With the schedule
    "flooding" every sweep updates every message; with "residual" only those whose change is at
    least 0.3 of the largest change, which converges on some fields where flooding runs in circles.
    Exact on forests; elsewhere the log-partition is Bethe's approximation, on neither side of the
    truth, and beliefs of a run that did not converge mean little.  Gradients of the log-partition
    are the beliefs at the fixed point.
    """

    max_sweeps: int = 1000
    tolerance: float = 1e-9
    damping: float = 0.0
    schedule: Schedule = "flooding"

    def __post_init__(self) -> None:
        self._passing()  # complains about impossible settings at once

    def refuses(self, graph: FactorGraph) -> str | None:
        return refuse_lifted(graph, "belief propagation")

    def __call__(self, potentials: Potentials) -> Beliefs:
        return self.run(potentials).beliefs

    def run(self, potentials: Potentials, messages: Messages | None = None) -> FixedPoint:
        """Sum-product from uniform messages, or from those of an earlier run on the same graph."""
        field, rest = self._pass(potentials, messages, torch.logsumexp)
        kind: Kind = "exact" if _surely_exact(potentials.graph, rest) else "approximation"
        beliefs = beliefs_at(potentials, field, rest, kind)
        return FixedPoint(with_gradient(potentials, beliefs), Messages(rest.messages))

    def best(self, potentials: Potentials) -> Decoding:
        """Max-product, decoded along a spanning forest, then climbing one variable at a time."""
        field, rest = self._pass(potentials, None, torch.amax)
        exact = _surely_exact(potentials.graph, rest)
        assignment = follow_messages(field, rest.messages)
        if not exact:
            assignment = with_possible_states(potentials, climb(potentials, assignment))
            assignment = climb(potentials, assignment)
        return Decoding(
            assignment,
            potentials.score(assignment).detach(),
            "exact" if exact else "approximation",
            sweeps=rest.sweeps,
            residual=rest.residual,
            converged=rest.converged,
        )

    def _passing(self) -> Passing:
        return Passing(self.max_sweeps, self.tolerance, self.damping, self.schedule)

    @torch.no_grad()
    def _pass(
        self, potentials: Potentials, messages: Messages | None, reduce: Reduction
    ) -> tuple[Field, Rest]:
        insist(self, potentials.graph)
        potentials.check_numbers()
        wiring = Wiring.of(potentials.graph)
        field = Field(wiring, wiring.bias(potentials), wiring.tables(potentials))
        return field, self._passing()(field, messages, reduce)


def _surely_exact(graph: FactorGraph, rest: Rest) -> bool:
    return rest.converged and rest.residual <= EXACT_RESIDUAL and is_forest(graph)
