"""Stochastic gradient descent, plain or averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from mrflearn.training.epochs import EpochState, check_rate, refuse_l1, run_epoch
from mrflearn.training.problem import Problem
from mrflearn.training.stopping import StopRule


@final
@dataclass(frozen=True)
class SGD:
    """w <- w - rate / (1 + decay * epochs so far) * gradient of one minibatch.

    The gradient is summed over the examples of the minibatch, so larger minibatches need lower
    rates.  From epoch `average_from` on (1 is the first) the mean of the iterates is the answer
    [Polyak & Juditsky 1992]; None: the last iterate is.
    """

    rate: float = 0.1
    epochs: int = 50
    decay: float = 0.0
    average_from: int | None = None
    period: int = 10
    delta: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_rate("SGD", self.rate)

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.epochs, max_seconds=self.max_seconds, period=self.period, delta=self.delta
        )

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> EpochState:
        refuse_l1(problem, "SGD")
        return EpochState.at(start)

    def advance(self, problem: Problem, state: EpochState) -> None:
        run_epoch(self, problem, state)

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> EpochState:
        return EpochState.restore(like, tensors)

    def move(self, state: EpochState, gradient: Float[Tensor, "p"], epochs: float) -> float:
        rate = self.rate / (1 + self.decay * epochs)
        state.vector.add_(gradient, alpha=-rate)
        return rate

    def averages(self, state: EpochState) -> bool:
        return self.average_from is not None and state.iteration + 1 >= self.average_from
