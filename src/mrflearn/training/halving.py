"""Stochastic gradient descent whose rate is halved whenever the validation score falls.

The schedule of the log-bilinear baseline in [Jernite, Rush & Sontag 2015, appendix B].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.training.epochs import EpochState, check_rate, refuse_l1, run_epoch
from mrflearn.training.outcome import Verdict
from mrflearn.training.problem import Problem
from mrflearn.training.stopping import StopRule


@final
@dataclass(frozen=True)
class HalvingSGD:
    """w <- w - rate * gradient of one minibatch; ends when the rate has fallen below `least`.

    `validate` takes the flat vector after each epoch; higher is better.  The gradient is summed
    over the examples of the minibatch, so larger minibatches need lower rates.
    """

    validate: Callable[[Tensor], float]
    rate: float = 0.1
    least: float = 1e-4
    epochs: int = 100
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_rate("HalvingSGD", self.rate)

    @property
    def rule(self) -> StopRule:
        return StopRule(self.epochs, max_seconds=self.max_seconds)

    def begin(self, problem: Problem, start: Float[Tensor, "p"]) -> EpochState:
        refuse_l1(problem, "HalvingSGD")
        state = EpochState.at(start)
        # The rate and the last score, on the CPU: they are read at every step.
        state.kept["halving"] = torch.tensor([self.rate, -math.inf], dtype=torch.float64)
        return state

    def advance(self, problem: Problem, state: EpochState) -> Verdict | None:
        rate, before = state.kept["halving"].tolist()
        if rate < self.least:
            return Verdict("value", f"the rate has been halved to {rate:.2g}.")
        run_epoch(self, problem, state)
        score = self.validate(state.vector)
        rate = rate if score > before else rate / 2
        state.kept["halving"] = torch.tensor([rate, score], dtype=torch.float64)
        return None

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> EpochState:
        state = EpochState.restore(like, tensors)
        state.kept["halving"] = tensors["kept.halving"].cpu()
        return state

    def move(self, state: EpochState, gradient: Float[Tensor, "p"], epochs: float) -> float:  # noqa: ARG002
        rate = float(state.kept["halving"][0])
        state.vector.add_(gradient, alpha=-rate)
        return rate

    def averages(self, state: EpochState) -> bool:  # noqa: ARG002
        return False
