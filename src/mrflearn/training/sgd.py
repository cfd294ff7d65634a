"""Stochastic gradient descent, Adagrad, passive-aggressive steps and AROW over minibatches.

J. Duchi, E. Hazan and Y. Singer, Adaptive subgradient methods, JMLR 12 (2011).
K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz and Y. Singer, Online passive-aggressive
algorithms, JMLR 7 (2006).
K. Crammer, A. Kulesza and M. Dredze, Adaptive regularization of weight vectors, NeurIPS 2009.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation, Vector
from mrflearn.objectives.problem import Problem
from mrflearn.training.checkpoint import restore_into
from mrflearn.training.outcome import StopRule

# Passes over minibatches in a random order, shared by the stochastic optimisers.


@final
@dataclass(eq=False)
class EpochState:
    """The iterate, the vectors a step rule keeps beside it, and the place in the current epoch.

    An iteration is an epoch.  `value` is the sum of the minibatch values, each taken just before
    its step; `gradient_norm` the root mean square of the minibatch gradients' norms.
    """

    vector: Vector
    kept: dict[str, Vector]
    sums: Float64[Tensor, " 2"]  # values and squared gradient norms of the epoch so far
    average: Vector | None  # None: nothing is averaged
    averaged: int = 0  # how many iterates are in the average
    iteration: int = 0
    position: int = 0  # minibatches done in the current epoch
    updates: int = 0
    value: float = math.nan
    gradient_norm: float = math.nan
    size: float = math.nan
    step: float = 0.0
    exact = False
    since = 0

    @property
    def noise(self) -> float:
        return 4 * torch.finfo(self.vector.dtype).eps * abs(self.value)

    @property
    def answer(self) -> Vector:
        return self.vector if self.average is None or not self.averaged else self.average


@dataclass(frozen=True, kw_only=True)
class ByEpochs(ABC):
    """An optimiser that goes over the minibatches in a random order; an iteration is an epoch.

    From epoch `average_from` on (1 is the first) the mean of the iterates is the answer [Polyak &
    Juditsky 1992]; None: the last iterate is.  With `average_over` no iterate weighs less in it
    than one of so many: a mean that forgets.  The stop rules are those of `StopRule`.
    """

    keeps: ClassVar[tuple[str, ...]] = ()  # the vectors that stand beside the iterate
    rate: float = 0.1
    epochs: int = 50
    average_from: int | None = None
    average_over: int | None = None
    period: int = 10
    delta: float | None = None
    max_seconds: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            name = type(self).__name__
            raise TrainingError(f"{name}: the learning rate must be positive; got {self.rate}.")

    @property
    def rule(self) -> StopRule:
        ends = {name: getattr(self, name) for name in ("max_seconds", "period", "delta", "target")}
        return StopRule(self.epochs, **ends)

    @abstractmethod
    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:
        """Moves the state's vector in place; gives the rate used, after `epochs` passes."""

    def blank(self, start: Vector) -> EpochState:
        kept = {name: torch.zeros_like(start) for name in self.keeps}
        sums = torch.zeros(2, dtype=torch.float64, device=start.device)
        average = None if self.average_from is None else torch.zeros_like(start)
        return EpochState(start, kept, sums, average)

    def begin(self, problem: Problem, state: EpochState) -> None:
        del state
        if problem.penalty.has_l1:
            name = type(self).__name__
            raise TrainingError(f"{name} needs a smooth penalty; for L1 train with OWLQN().")

    def restore(self, state: EpochState, tensors: dict[str, Tensor]) -> None:
        restore_into(state, tensors)

    def evaluate(self, problem: Problem, index: int, state: EpochState) -> Evaluation:
        """One minibatch where the state stands."""
        return problem.part(index, state.vector)

    def advance(self, problem: Problem, state: EpochState) -> None:
        """One pass over all minibatches, or the rest of one that was broken off."""
        count = problem.objective.parts
        # The order depends on seed and epoch alone, so a resumed training needs no random state.
        order = np.random.default_rng([problem.seed, state.iteration]).permutation(count)
        for index in order[state.position :].tolist():
            found = self.evaluate(problem, index, state)
            gradient = found.gradient
            state.sums += torch.stack((found.value.double(), gradient.dot(gradient).double()))
            state.step = self.move(state, found, state.updates / count)
            state.updates += 1
            state.position += 1
            if state.average is not None and state.iteration + 1 >= (self.average_from or 0):
                state.averaged += 1
                among = min(state.averaged, self.average_over or state.averaged)
                state.average.lerp_(state.vector, 1 / among)
        size = state.answer.dot(state.answer).double().reshape(1)
        value, squares, size = torch.cat((state.sums, size)).tolist()
        if not (math.isfinite(value) and math.isfinite(squares)):
            raise TrainingError(
                f"the values of epoch {state.iteration + 1} sum to {value}: the steps are probably "
                f"too long; try a tenth of this rate ({state.step:g})."
            )
        state.value, state.gradient_norm = value, math.sqrt(squares / count)
        state.size = math.sqrt(size)
        state.sums.zero_()
        state.position = 0
        state.iteration += 1
        problem.meter.evaluations += 1


# Stochastic gradient descent, plain or averaged.


@final
@dataclass(frozen=True)
class SGD(ByEpochs):
    """w <- w - rate / ((1 + decay * epochs so far) t^power) * gradient of minibatch t = 1, 2, ...

    The gradient is summed over the examples of the minibatch, so larger minibatches need lower
    rates.
    """

    rate: float = 0.1
    epochs: int = 50
    decay: float = 0.0
    power: float = 0.0

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:
        fall = math.pow(state.updates + 1, self.power)
        rate = self.rate / ((1 + self.decay * epochs) * fall)
        state.vector.add_(found.gradient, alpha=-rate)
        return rate


# Adagrad: gradient descent with a rate for each weight that falls with the gradients it has
# seen.


@final
@dataclass(frozen=True)
class Adagrad(ByEpochs):
    """w <- w - rate * g / (sqrt(sum of g^2 so far) + epsilon), g the gradient of one minibatch."""

    keeps: ClassVar[tuple[str, ...]] = ("squares",)
    rate: float = 0.1
    epochs: int = 50
    epsilon: float = 1e-10

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:  # noqa: ARG002
        gradient = found.gradient
        squares = state.kept["squares"].addcmul_(gradient, gradient)
        state.vector.addcdiv_(gradient, squares.sqrt().add_(self.epsilon), value=-self.rate)
        return self.rate


# Steps as long as a minibatch's hinge loss asks for: passive where there is none.


@final
@dataclass(frozen=True)
class PassiveAggressive(ByEpochs):
    """w <- w - tau * g, the shortest step after which a minibatch of loss l has none left.

    tau = l / |g|^2 (kind 0), at most `rate` of it (kind 1, PA-I), or l / (|g|^2 + 1 / (2 rate))
    (kind 2, PA-II); `rate` is the aggressiveness C [Crammer et al. 2006, figure 1].
    """

    kind: int = 1
    rate: float = 1.0
    epochs: int = 100
    average_from: int | None = 1

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:  # noqa: ARG002
        loss, norm = float(found.value), float(found.gradient.dot(found.gradient))
        if norm == 0:
            return 0.0
        tau = loss / (norm + 0.5 / self.rate if self.kind == 2 else norm)
        tau = min(self.rate, tau) if self.kind == 1 else tau
        state.vector.add_(found.gradient, alpha=-tau)
        return tau


@final
@dataclass(frozen=True)
class AROW(ByEpochs):
    """A passive-aggressive step of weights that are the surer, the more they have been moved.

    The weights are Gaussian, of variance `rate` at first: w <- w - l / (gamma + g' S g) * S g and
    S^-1 <- S^-1 + g^2 / gamma, S diagonal [Crammer et al. 2009, figure 1].
    """

    keeps: ClassVar[tuple[str, ...]] = ("evidence",)  # gamma * (S^-1 less that of the beginning)
    rate: float = 1.0
    gamma: float = 1.0
    epochs: int = 100

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:  # noqa: ARG002
        evidence, squares = state.kept["evidence"], found.gradient.square()
        variance = evidence.div(self.gamma).add_(1 / self.rate).reciprocal_()
        step = float(found.value) / (self.gamma + float(squares.dot(variance)))
        state.vector.addcmul_(found.gradient, variance, value=-step)
        evidence.add_(squares)
        return step
