"""Parallel tempering: chains at several temperatures that exchange their states.

Where a field has separate modes, plain Gibbs chains stay in the one they found.  At a higher
temperature, where scores count less, chains cross; neighbours in temperature exchange states so
that each keeps its own distribution [Geyer 1991].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Sampler, seeded
from mrflearn.inference.sampling import Conditionals, GibbsRun, feasible_states


@final
@dataclass(frozen=True)
class ParallelTempering(Sampler):
    """Gibbs chains at inverse temperatures from 1 down to `least`, in geometric steps.

    Parameters
    ----------
    temperatures
        How many; exchanges are accepted less often where there are few (`GibbsRun.exchanges`).
    least
        The least inverse temperature, above 0: one at which chains move freely.
    sweeps, burn_in, thin
        As in `Gibbs`; after every sweep neighbours in temperature may exchange their states.
    chains
        Independent ladders of temperatures.

    Examples
    --------
    >>> from mrflearn.graph import grid, random_ising
    >>> from mrflearn.inference import ParallelTempering
    >>> field = random_ising(grid(4, 4), seed=0)
    >>> run = ParallelTempering(sweeps=100, burn_in=50, chains=8).run(field, seed=0)
    >>> run.states.shape
    torch.Size([10, 8, 16])
    >>> len(run.exchanges)
    7

    """

    temperatures: int = 8
    least: float = 0.1
    sweeps: int = 1000
    burn_in: int = 500
    chains: int = 16
    thin: int = 10

    def __post_init__(self) -> None:
        if min(self.temperatures - 1, self.chains, self.thin) < 1 or self.burn_in < 0:
            raise InferenceError(
                "temperatures must be at least 2, chains and thin at least 1, burn_in at least 0."
            )
        if not 0 < self.least < 1:
            raise InferenceError(f"least={self.least} must be between 0 and 1.")
        if self.sweeps < self.thin:
            raise InferenceError(f"sweeps={self.sweeps} must be at least thin={self.thin}.")

    @one_thread()
    @torch.no_grad()
    def run(
        self, potentials: Potentials, generator: torch.Generator | None = None, *, seed: int = 0
    ) -> GibbsRun:
        """The kept draws at temperature 1, and how often neighbours exchanged states.

        Parameters
        ----------
        potentials
            The field.
        generator
            Of the random numbers; None: a new one from the seed.
        seed
            Its seed.

        Returns
        -------
        GibbsRun
            Draws, scores and diagnostics, as of `Gibbs`.

        """
        potentials.check_numbers()
        device = potentials.graph.device
        generator = seeded(generator, seed, device)
        field, levels = Conditionals.of(potentials), self.temperatures
        # Level by level, the chains of one side by side.
        states = feasible_states(field, levels * self.chains, generator)
        steps = torch.arange(levels, dtype=field.bias.dtype, device=device) / (levels - 1)
        beta = self.least**steps
        share = beta.repeat_interleave(self.chains)
        kept, scores = [], []
        accepted = torch.zeros(levels - 1, dtype=torch.float64, device=device)
        rounds = self.burn_in + self.sweeps // self.thin * self.thin
        for turn in range(rounds):
            field.sweep(states, generator, share)
            accepted += self._exchange(field, states, beta.double(), turn % 2, generator)
            done = turn + 1 - self.burn_in
            if done > 0 and done % self.thin == 0:
                own = states[:, : self.chains]
                kept.append(own.T.clone())
                scores.append(field.score(own).T)
        tried = [len(range(first % 2, rounds, 2)) for first in range(levels - 1)]
        exchanges = accepted / torch.tensor(tried, device=device).clamp(min=1)
        return GibbsRun(potentials.graph, torch.stack(kept), torch.stack(scores), exchanges)

    def _exchange(
        self,
        field: Conditionals,
        states: Tensor,
        beta: Tensor,
        first: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Exchanges states of every other pair of levels, a component; the share accepted of each.

        With probability min(1, exp((beta - beta') (score' - score))).
        """
        levels, chains = len(beta), self.chains
        score = field.score(states).unflatten(1, (levels, chains))
        source = torch.arange(levels * chains, device=states.device).view(1, levels, chains)
        source = source.repeat(len(score), 1, 1)
        share = torch.zeros(levels - 1, dtype=torch.float64, device=states.device)
        lower = torch.arange(first, levels - 1, 2, device=states.device)
        if len(lower):
            gain = score[:, lower + 1] - score[:, lower]
            odds = (beta[lower] - beta[lower + 1]).view(1, -1, 1) * gain
            uniform = torch.rand(odds.shape, generator=generator, device=odds.device)
            taken = uniform < odds.exp()
            here, there = source[:, lower], source[:, lower + 1]
            source[:, lower] = torch.where(taken, there, here)
            source[:, lower + 1] = torch.where(taken, here, there)
            states.copy_(field.select(states, source.flatten(1)))
            share[lower] = taken.double().mean((0, 2))
        return share

    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        """`count` draws, as many from each ladder; as many sweeps as that needs."""
        chains = max(1, min(self.chains, count))
        sweeps = self.thin * max(1, -(-count // chains))
        settings = (self.temperatures, self.least, sweeps, self.burn_in, chains, self.thin)
        run = ParallelTempering(*settings).run(potentials, generator)
        return run.states.flatten(0, 1)[:count]
