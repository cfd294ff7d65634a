"""Local problems with a price on every coupling: whole tables become exactly zero.

    minimise  likelihood + l2 * sum w^2 + l1 * sum over cliques of two or more |their parameters|

The norm of a clique's whole table is priced (the group lasso; for two states it is |w|), by
accelerated proximal steps, each problem with its own step length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.objectives.local_auxiliary import LocalLikelihood
from mrflearn.training.local import LocalSolution


@dataclass(frozen=True)
class LocalProximal:
    """Minimises likelihood + L2 + group L1 for every problem."""

    l1: float
    l2: float = 0.0
    tolerance: float = 1e-7
    max_iterations: int = 20_000

    def __call__(self, problems: LocalLikelihood) -> LocalSolution:
        """The solution of every problem [Beck and Teboulle 2009, with restarts]."""
        here = ahead = torch.zeros_like(problems.observed)
        rate = 4.0 / problems.total.clamp_min(1e-300)
        age = torch.ones_like(rate)
        iterations, done = 0, torch.zeros_like(rate, dtype=torch.bool)
        while iterations < self.max_iterations and not bool(done.all()):
            iterations += 1
            there, rate = self._step(problems, ahead, rate)
            moved = there - here
            # Momentum that points back has overshot: start it again.
            age = torch.where(((ahead - there) * moved).sum(dim=0) > 0, 1.0, age)
            older = (1 + (1 + 4 * age.square()).sqrt()) / 2
            ahead = there + (age - 1) / older * moved
            done = (moved.abs().amax(dim=0) <= self.tolerance) & (age > 1)
            here, age = there, older
        value = self._smooth(problems, here)[0] + self._price(problems, here)
        return LocalSolution(here, value, iterations, done)

    def _step(
        self, problems: LocalLikelihood, start: Float[Tensor, "p q"], rate: Float[Tensor, "q"]
    ) -> tuple[Float[Tensor, "p q"], Float[Tensor, "q"]]:
        """A proximal step from `start`, shortened where the quadratic bound does not hold."""
        value, gradient = self._smooth(problems, start)
        while True:
            there = self._shrunk(problems, start - rate * gradient, rate)
            moved = there - start
            bound = value + (gradient * moved).sum(dim=0) + moved.square().sum(dim=0) / (2 * rate)
            slack = 1e-12 * (value.abs() + problems.total)
            broken = problems.at(there).value + self.l2 * there.square().sum(dim=0) > bound + slack
            if not bool(broken.any()):
                return there, rate
            rate = torch.where(broken, rate / 2, rate)

    def _smooth(
        self, problems: LocalLikelihood, terms: Float[Tensor, "p q"]
    ) -> tuple[Float[Tensor, "q"], Float[Tensor, "p q"]]:
        fit = problems.at(terms)
        value = fit.value + self.l2 * terms.square().sum(dim=0)
        return value, problems.gradient(fit) + 2 * self.l2 * terms

    def _shrunk(
        self, problems: LocalLikelihood, terms: Float[Tensor, "p q"], rate: Float[Tensor, "q"]
    ) -> Float[Tensor, "p q"]:
        """Each priced table shortened by l1 * rate, or zero if it is shorter than that."""
        shrunk = terms.clone()
        for span in _priced(problems):
            norm = terms[span].norm(dim=0).clamp_min(1e-300)
            shrunk[span] = terms[span] * (1 - self.l1 * rate / norm).clamp_min(0.0)
        return shrunk

    def _price(self, problems: LocalLikelihood, terms: Float[Tensor, "p q"]) -> Float[Tensor, "q"]:
        norms = [terms[span].norm(dim=0) for span in _priced(problems)]
        return self.l1 * torch.stack([torch.zeros_like(problems.total), *norms]).sum(dim=0)


def _priced(problems: LocalLikelihood) -> list[slice]:
    shape = problems.shape
    pairs = zip(shape.spans, shape.touching, strict=True)
    return [span for span, places in pairs if len(places) > 1]
