"""What L-BFGS and OWL-QN are told: when to stop, and how much to remember."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.training.quasi_newton import QuasiNewtonState
from mrflearn.training.stopping import StopRule


@dataclass(frozen=True)
class QuasiNewtonSettings:
    """The stop rules are those of `StopRule`; `history` is the number of pairs remembered."""

    max_iterations: int = 200
    tolerance: float | None = 1e-6
    history: int = 10
    period: int = 10
    delta: float | None = 1e-9
    max_evaluations: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.history < 1:
            raise TrainingError(
                f"history={self.history}: at least one pair must be remembered; 10 is usual."
            )

    @property
    def vectors_held(self) -> int:
        """About how many vectors of all parameters a search holds: pairs, gradients, points."""
        return 2 * (self.history + 1) + 8

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.max_iterations,
            self.max_evaluations,
            self.max_seconds,
            self.tolerance,
            self.period,
            self.delta,
        )

    def restore(self, like: Float[Tensor, "p"], tensors: dict[str, Tensor]) -> QuasiNewtonState:
        """The state that a checkpoint holds."""
        return QuasiNewtonState.restore(self.history, like, tensors)
