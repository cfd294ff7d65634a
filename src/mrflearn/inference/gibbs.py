"""Gibbs sampling: all variables of one colour, in all chains, drawn at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.threads import one_thread
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import insist
from mrflearn.inference.conditionals import Conditionals
from mrflearn.inference.diagnostics import effective_draws, split_r_hat
from mrflearn.inference.starting import possible_states
from mrflearn.inference.wiring import refuse_lifted


@dataclass(frozen=True, eq=False)
class GibbsRun:
    """The draws kept from every chain, and what they are worth.  Letters: d: draws; n: chains."""

    graph: FactorGraph
    states: Int[Tensor, "d n v"]
    scores: Float[Tensor, "d n c"]  # unnormalised log-probabilities

    def marginals(self) -> Float[Tensor, "v s"]:
        """How often each variable was in each state."""
        return torch.stack([self._seen(s).mean(dim=(0, 1)) for s in self._states()], dim=1)

    def r_hat(self) -> Float[Tensor, "v"]:
        """Split R-hat of every variable, of the worst of its states; near 1 where chains agree."""
        return torch.stack([split_r_hat(self._seen(s)) for s in self._states()]).amax(dim=0)

    def effective_draws(self) -> Float[Tensor, "c"]:
        """How many independent draws the run is worth, judged by the score of each component."""
        return effective_draws(self.scores)

    def _states(self) -> range:
        return range(self.graph.most_states)

    def _seen(self, state: int) -> Float[Tensor, "d n v"]:
        return (self.states == state).to(self.scores.dtype)


@final
@dataclass(frozen=True)
class Gibbs:
    """Chains run side by side; `burn_in` sweeps are thrown away, then every `thin`-th is kept.

    `sweeps` counts those after the burn-in, in each chain.  Chains start from states of positive
    probability, but where -inf entries cut the space in pieces a chain stays in the piece where it
    started: R-hat is then far above 1.
    """

    sweeps: int = 1000
    burn_in: int = 500
    chains: int = 64
    thin: int = 10

    def __post_init__(self) -> None:
        if min(self.sweeps, self.chains, self.thin) < 1 or self.burn_in < 0:
            raise InferenceError("sweeps, chains and thin must be at least 1, burn_in at least 0.")
        if self.sweeps < self.thin:
            raise InferenceError(
                f"{self.sweeps} sweeps of which each {self.thin}th is kept leave nothing. "
                "Raise sweeps, or lower thin."
            )

    def refuses(self, graph: FactorGraph) -> str | None:
        return refuse_lifted(graph, "Gibbs sampling")

    @one_thread()
    @torch.no_grad()
    def run(self, potentials: Potentials, generator: torch.Generator) -> GibbsRun:
        """All kept draws of all chains, with diagnostics."""
        insist(self, potentials.graph)
        potentials.check_numbers()
        field = Conditionals.of(potentials)
        states = possible_states(potentials, field, self.chains, generator)
        for _ in range(self.burn_in):
            field.sweep(states, generator)
        kept, scores = [], []
        for _ in range(self.sweeps // self.thin):
            for _ in range(self.thin):
                field.sweep(states, generator)
            kept.append(states.T.clone())
            scores.append(field.score(states).T)
        return GibbsRun(potentials.graph, torch.stack(kept), torch.stack(scores))

    def run_for(self, potentials: Potentials, count: int, generator: torch.Generator) -> GibbsRun:
        """A run of `count` draws or a few more, as many from each chain."""
        chains = max(1, min(self.chains, count))
        sweeps = self.thin * max(1, -(-count // chains))
        return replace(self, chains=chains, sweeps=sweeps).run(potentials, generator)

    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """`count` draws, as many from each chain; as many sweeps as that needs."""
        return self.run_for(potentials, count, generator).states.flatten(0, 1)[:count]
