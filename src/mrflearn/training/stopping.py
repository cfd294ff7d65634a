"""When training is over: gradient small, value no longer falling, or a limit reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from mrflearn.errors import TrainingError
from mrflearn.training.outcome import Row, Verdict


@final
@dataclass(frozen=True)
class StopRule:
    """The rules an optimiser stops by; `None` switches a rule off.

    - gradient: |g| max(1, |w|) <= tolerance max(1, |value|), norms Euclidean [Dennis & Schnabel
      1983, section 7.2]: the change of the value, relative, for a relative change of the weights.
    - value: it fell by less than delta |value|, or by less than its noise, over the last `period`
      iterations (CRFsuite's rule).
    - limits on iterations, evaluations, seconds (all counted through a resumed training).
    """

    max_iterations: int
    max_evaluations: int | None = None
    max_seconds: float | None = None
    tolerance: float | None = None
    period: int = 10
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.max_iterations < 0 or self.period < 1:
            raise TrainingError(
                f"max_iterations={self.max_iterations}, period={self.period}: "
                "the first must be 0 or more, the second 1 or more."
            )

    def verdict(
        self, row: Row, size: float, history: Sequence[Row], noise: float
    ) -> Verdict | None:
        """Why to stop after `row` (weights of norm `size`, a value with that noise), or None."""
        return (
            self._small_gradient(row, size)
            or self._flat_value(row, history, noise)
            or self.limit(row.iteration, row.evaluations, row.seconds)
        )

    def limit(self, iteration: int, evaluations: int, seconds: float) -> Verdict | None:
        """Which limit is reached, or None."""
        if iteration >= self.max_iterations:
            return Verdict("limit", f"the limit of {self.max_iterations} iterations is reached.")
        if self.max_evaluations is not None and evaluations >= self.max_evaluations:
            return Verdict("limit", f"the limit of {self.max_evaluations} evaluations is reached.")
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return Verdict("limit", f"the limit of {self.max_seconds:g} seconds is reached.")
        return None

    def _small_gradient(self, row: Row, size: float) -> Verdict | None:
        if self.tolerance is None:
            return None
        relative = row.gradient_norm * max(1.0, size) / max(1.0, abs(row.value))
        if relative > self.tolerance:
            return None
        return Verdict(
            "gradient", f"the gradient is small: {relative:.1e}, relative (<= {self.tolerance:g})."
        )

    def _flat_value(self, row: Row, history: Sequence[Row], noise: float) -> Verdict | None:
        if self.delta is None or len(history) <= self.period:
            return None
        fallen = history[-1 - self.period].value - row.value
        if fallen > max(self.delta * abs(row.value), noise):
            return None
        return Verdict(
            "value",
            f"the value no longer falls: by {fallen:.2g} over the last {self.period} iterations.",
        )
