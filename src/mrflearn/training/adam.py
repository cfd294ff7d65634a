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
@dataclass(frozen=True)
class Adam(ByEpochs):
    """w <- w - rate * m / (sqrt(v) + epsilon) [Kingma & Ba 2015, algorithm 1].

    m and v are the means of the gradient of one minibatch and of its square, of which a step
    forgets the shares 1 - `beta1` and 1 - `beta2`, both divided by what zeros at the start leave
    of them.  A gradient longer than `longest` is cut to that length; None: none is.

    The rate falls as 1 / (1 + decay * epochs so far); or, with `length`, to 0 as a cosine over so
    many steps.  Over the first `ramp` steps it rises.  With L1 the gradient is the one-sided
    derivative of least size, and a weight that would change its sign is 0 instead: many are exactly
    0 in the end [Andrew and Gao, section 3.2].
    """

    keeps: ClassVar[tuple[str, ...]] = ("first", "second", "l1")
    rate: float = 1e-3
    epochs: int = 50
    decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    longest: float | None = None
    length: int | None = None
    ramp: int = 1

    def begin(self, problem: Problem, state: EpochState) -> None:
        """L1 is welcome; its strengths are kept beside the iterate."""
        state.kept["l1"].add_(problem.l1)

    def rate_at(self, updates: int, epochs: float = 0.0) -> float:
        """The rate of the step after so many, and after so many epochs."""
        rate = self.rate * min(1.0, (updates + 1) / self.ramp)
        if self.length is None:
            return rate / (1 + self.decay * epochs)
        return rate * (1 + math.cos(math.pi * min(updates / self.length, 1.0))) / 2

    def evaluate(self, problem: Problem, index: int, state: EpochState) -> Evaluation:
        found = problem.part(index, state.vector)
        if not problem.penalty.has_l1:
            return found
        share = 1 / problem.objective.parts
        size = problem.penalty.l1_value(problem.natural(state.vector))
        gradient = torch.empty_like(found.gradient)
        pseudo_gradient(state.vector, found.gradient, state.kept["l1"] * share, out=gradient)
        return replace(found, value=found.value + share * size, gradient=gradient)

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:
        vector, gradient, steps = state.vector, found.gradient, state.updates + 1
        if self.longest is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient = gradient * (self.longest / norm.clamp_min(self.longest))
        first = state.kept["first"].lerp_(gradient, 1 - self.beta1)
        second = state.kept["second"].mul_(self.beta2)
        second.addcmul_(gradient, gradient, value=1 - self.beta2)
        size = second.div(1 - self.beta2**steps).sqrt_().add_(self.epsilon)
        rate = self.rate_at(state.updates, epochs)
        moved = vector.addcdiv(first, size, value=-rate / (1 - self.beta1**steps))
        l1 = state.kept["l1"]
        if l1.any():
            # Where a weight is 0, the orthant is the one that the gradient leads to, if any.
            orthant = torch.where(vector == 0, gradient.neg(), vector)
            moved.masked_fill_((l1 > 0) & (moved * orthant <= 0), 0)
        vector.copy_(moved)
        return rate
