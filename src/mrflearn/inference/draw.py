"""Samples of a field: exact where its width allows, else by Gibbs, and what those are worth."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.graph.potentials import Potentials
from mrflearn.inference.diagnostics import LEAST_DRAWS, effective_draws, split_r_hat
from mrflearn.inference.gibbs import Gibbs, GibbsRun
from mrflearn.inference.junction_tree import JunctionTree


@dataclass(frozen=True, eq=False)
class Draw:
    """Samples, and how they were made."""

    samples: Int[Tensor, "n v"]
    method: str


@dataclass(frozen=True)
class Drawing:
    """Exact samples by `exact` where it accepts the graph, else approximate ones by `gibbs`."""

    exact: JunctionTree = field(default_factory=JunctionTree)
    gibbs: Gibbs = field(default_factory=Gibbs)

    def __call__(self, potentials: Potentials, count: int, *, seed: int = 0) -> Draw:
        """`count` samples that depend on nothing but the field and the seed."""
        generator = torch.Generator(device=potentials.graph.device).manual_seed(seed)
        refusal = self.exact.refuses(potentials.graph)
        if refusal is None:
            return Draw(self.exact.sample(potentials, count, generator), "exact (junction tree)")
        run = self.gibbs.run_for(potentials, count, generator)
        method = f"Gibbs, {self.gibbs.burn_in} sweeps of burn-in{_worth(run)} ({refusal})"
        return Draw(run.states.flatten(0, 1)[:count], method)


def _worth(run: GibbsRun) -> str:
    """What the draws are worth, judged by their scores, where chains are long enough to tell."""
    if len(run.scores) < LEAST_DRAWS:
        return ""
    alike, worth = split_r_hat(run.scores).max(), effective_draws(run.scores).min()
    return f", R-hat {float(alike):.3f}, worth {float(worth):,.0f} independent draws"
