"""Annealed importance sampling: log Z with an error bar, and weighted samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.threads import one_thread
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import insist
from mrflearn.inference.conditionals import Conditionals
from mrflearn.inference.wiring import refuse_lifted


@dataclass(frozen=True, eq=False)
class AnnealedEstimate:
    """An estimate of log Z by component, its standard error, and the weighted chains behind it.

    The error bar is honest while `effective_chains` is a good share of the chains; where a few
    chains carry all the weight it is too small, and more temperatures are called for.
    """

    log_partition: Float[Tensor, "c"]
    standard_error: Float[Tensor, "c"]
    effective_chains: Float[Tensor, "c"]
    log_weights: Float[Tensor, "c n"]
    states: Int[Tensor, "n v"]
    kind: Literal["approximation"] = "approximation"


@final
@dataclass(frozen=True)
class AnnealedImportance:
    """Chains that go from the unary factors alone to the whole field in equal steps.

    At step k of `temperatures` all larger factors count k / temperatures of their score, and every
    chain takes one Gibbs sweep [Neal 2001].  exp(log_partition) is unbiased.
    """

    chains: int = 128
    temperatures: int = 1000

    def __post_init__(self) -> None:
        if self.chains < 2 or self.temperatures < 1:
            raise InferenceError(
                f"chains={self.chains}, temperatures={self.temperatures}: an error bar needs at "
                "least 2 chains, and the path at least 1 step."
            )

    def refuses(self, graph: FactorGraph) -> str | None:
        return refuse_lifted(graph, "annealed importance sampling")

    @one_thread()
    @torch.no_grad()
    def estimate(self, potentials: Potentials, generator: torch.Generator) -> AnnealedEstimate:
        """log Z with its standard error; -inf, of infinite error, where every chain dies out."""
        insist(self, potentials.graph)
        potentials.check_numbers()
        graph, field = potentials.graph, Conditionals.of(potentials)
        states = field.independent(self.chains, generator)
        step = 1.0 / self.temperatures
        log_weights = field.bias.new_zeros(graph.components, self.chains)
        for k in range(1, self.temperatures + 1):
            # [Neal 2001, eq. 7]: the ratio of two neighbouring densities, at the state before.
            log_weights += step * field.interaction(states)
            field.sweep(states, generator, share=k * step)
        single = torch.logsumexp(field.bias, dim=1)
        start = single.new_zeros(graph.components).index_add_(0, graph.component, single)
        return _summary(start, log_weights, states)

    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """`count` draws from the ends of at least so many chains, in proportion to weight."""
        chains = max(self.chains, count)
        found = replace(self, chains=chains).estimate(potentials, generator)
        lost = found.log_partition == -torch.inf
        if bool(lost.any()):
            raise InferenceError(
                f"component {int(lost.nonzero()[0])}: all {chains} chains ended in impossible "
                "states. There may be no possible one; JunctionTree tells where the width allows."
            )
        weights = torch.softmax(found.log_weights, dim=1)
        source = torch.multinomial(weights, count, replacement=True, generator=generator)
        return found.states.T.gather(1, source[potentials.graph.component]).T


def _summary(
    start: Float[Tensor, "c"], log_weights: Float[Tensor, "c n"], states: Int[Tensor, "v n"]
) -> AnnealedEstimate:
    """The estimate from the weights; the error bar by the delta method."""
    chains = log_weights.shape[1]
    log_partition = start + torch.logsumexp(log_weights, dim=1) - math.log(chains)
    squares = torch.softmax(log_weights, dim=1).square().sum(dim=1)
    dead = log_partition == -torch.inf
    # The standard error of log(mean w) is that of mean w, divided by mean w.
    variance = ((chains * squares - 1) / (chains - 1)).clamp(min=0.0)
    return AnnealedEstimate(
        log_partition,
        torch.where(dead, torch.inf, variance.sqrt()),
        torch.where(dead, 0.0, 1 / squares),
        log_weights,
        states.T.contiguous(),
    )
