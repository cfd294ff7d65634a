"""Adam, with L1 penalties inside one orthant.

D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
G. Andrew and J. Gao, Scalable training of L1-regularized log-linear models, ICML 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch

from mrflearn.objectives.base import Evaluation
from mrflearn.objectives.problem import Problem
from mrflearn.training.owlqn import pseudo_gradient
from mrflearn.training.sgd import ByEpochs, EpochState


@final
@dataclass(frozen=True, kw_only=True)
class OrthantAdam(ByEpochs):
    """w <- w - rate * mean(g) / sqrt(mean(g^2)), means whose past fades step by step.

    The rate rises over `ramp` steps and falls to 0 as a cosine over `length` steps in all.  With L1
    g is the one-sided derivative of least size, and a weight that would change its sign is 0
    instead: many are exactly 0 in the end [Andrew and Gao, section 3.2].
    """

    keeps: ClassVar[tuple[str, ...]] = ("mean", "squares", "l1")
    rate: float = 0.012
    length: int = 600
    ramp: int = 15
    fading: float = 0.9
    squares_fading: float = 0.99
    epsilon: float = 1e-12

    def begin(self, problem: Problem, state: EpochState) -> None:
        """L1 is welcome; its strengths are kept beside the iterate."""
        state.kept["l1"].add_(problem.l1)

    def rate_at(self, updates: int) -> float:
        """The rate of the step after so many."""
        rise = min(1.0, (updates + 1) / self.ramp)
        return self.rate * rise * (1 + math.cos(math.pi * min(updates / self.length, 1.0))) / 2

    def evaluate(self, problem: Problem, index: int, state: EpochState) -> Evaluation:
        found = problem.part(index, state.vector)
        if not problem.penalty.has_l1:
            return found
        share = 1 / problem.objective.parts
        size = problem.penalty.l1_value(problem.natural(state.vector))
        gradient = torch.empty_like(found.gradient)
        pseudo_gradient(state.vector, found.gradient, state.kept["l1"] * share, out=gradient)
        return replace(found, value=found.value + share * size, gradient=gradient)

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:  # noqa: ARG002
        vector, gradient, second = state.vector, found.gradient, self.squares_fading
        mean = state.kept["mean"].lerp_(gradient, 1 - self.fading)
        squares = state.kept["squares"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        done, rate = state.updates + 1, self.rate_at(state.updates)
        spread = (squares / (1 - second**done)).sqrt_().add_(self.epsilon)
        moved = vector.addcdiv(mean, spread, value=-rate / (1 - self.fading**done))
        # Where a weight is 0, the orthant is the one that the gradient leads to, if any.
        orthant = torch.where(vector == 0, gradient.neg(), vector)
        moved.masked_fill_((state.kept["l1"] > 0) & (moved * orthant <= 0), 0)
        vector.copy_(moved)
        return rate
