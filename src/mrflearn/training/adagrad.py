"""Adagrad: gradient descent with a rate for each weight that falls with the gradients it has seen.

J. Duchi, E. Hazan and Y. Singer, Adaptive subgradient methods, JMLR 12 (2011).
"""

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
class Adagrad:
    """w <- w - rate * g / (sqrt(sum of g^2 so far) + epsilon), g the gradient of one minibatch."""

    rate: float = 0.1
    epochs: int = 50
    epsilon: float = 1e-10
    period: int = 10
    delta: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_rate("Adagrad", self.rate)

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.epochs, max_seconds=self.max_seconds, period=self.period, delta=self.delta
        )

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> EpochState:
        refuse_l1(problem, "Adagrad")
        return EpochState.at(start, "squares")

    def advance(self, problem: Problem, state: EpochState) -> None:
        run_epoch(self, problem, state)

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> EpochState:
        return EpochState.restore(like, tensors)

    def move(self, state: EpochState, gradient: Float[Tensor, "p"], epochs: float) -> float:  # noqa: ARG002
        squares = state.kept["squares"].addcmul_(gradient, gradient)
        state.vector.addcdiv_(gradient, squares.sqrt().add_(self.epsilon), value=-self.rate)
        return self.rate

    def averages(self, state: EpochState) -> bool:  # noqa: ARG002
        return False
