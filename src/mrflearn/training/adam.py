"""Adam: gradient descent with running means of the gradient and of its square.

D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015, Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from mrflearn.training.epochs import EpochState, check_rate, refuse_l1, run_epoch
from mrflearn.training.problem import Problem
from mrflearn.training.stopping import StopRule


@final
@dataclass(frozen=True)
class Adam:
    """Steps of about `rate` in every weight, at `rate / (1 + decay * epochs so far)`."""

    rate: float = 0.01
    epochs: int = 50
    decay: float = 0.0
    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8
    period: int = 10
    delta: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_rate("Adam", self.rate)

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.epochs, max_seconds=self.max_seconds, period=self.period, delta=self.delta
        )

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> EpochState:
        refuse_l1(problem, "Adam")
        return EpochState.at(start, "mean", "square")

    def advance(self, problem: Problem, state: EpochState) -> None:
        run_epoch(self, problem, state)

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> EpochState:
        return EpochState.restore(like, tensors)

    def move(self, state: EpochState, gradient: Float[Tensor, "p"], epochs: float) -> float:
        rate, count = self.rate / (1 + self.decay * epochs), state.updates + 1
        mean = state.kept["mean"].lerp_(gradient, 1 - self.first)
        square = state.kept["square"].mul_(self.second)
        square.addcmul_(gradient, gradient, value=1 - self.second)
        scale = math.sqrt(1 - self.second**count)
        spread = square.sqrt().div_(scale).add_(self.epsilon)
        state.vector.addcdiv_(mean, spread, value=-rate / (1 - self.first**count))
        return rate

    def averages(self, state: EpochState) -> bool:  # noqa: ARG002
        return False
