"""What may look on after each iteration, and stop the training: any function of a `Step`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.training.outcome import Step

Callback = Callable[[Step[Any]], str | None]  # a reason to stop, or None to go on


class Best(NamedTuple):
    """The vector to hand out, and the value the training had there."""

    vector: Float[Tensor, " p"]
    value: float


@final
@dataclass(frozen=True)
class EarlyStopping:
    """Stops when `validate(model)` has not improved for `patience` checks; keeps the best model.

    It checks every `every` iterations.  Under `minimise` the "model" is the flat vector.
    """

    validate: Callable[[Any], float]
    patience: int = 10
    every: int = 1
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if self.patience < 1 or self.every < 1:
            raise TrainingError(
                f"EarlyStopping: patience={self.patience} and every={self.every} must be 1 or more."
            )

    def begin(self) -> Watch:
        """The memory of one training."""
        return Watch(self)


@final
class Watch:
    """The memory of one `EarlyStopping`, which goes into checkpoints.

    `score` is what it found at the last step, and `kept` what to hand out instead of the last
    vector.
    """

    def __init__(self, settings: EarlyStopping) -> None:
        self.settings = settings
        self.score: float | None = None
        self.best_score = math.nan
        self.best_iteration = 0
        self.checks_since = 0
        self.kept: Best | None = None

    def __call__(self, step: Step[Any]) -> str | None:
        self.score = None
        if step.iteration % self.settings.every:
            return None
        self.score = float(self.settings.validate(step.model))
        if self._improves(self.score):
            self.best_score, self.best_iteration = self.score, step.iteration
            self.checks_since = 0
            self.kept = Best(step.vector.clone(), step.value)
            return None
        self.checks_since += 1
        if self.checks_since < self.settings.patience:
            return None
        return (
            f"the validation score has not improved for {self.checks_since} checks; "
            f"the best was {self.best_score:.6g} at iteration {self.best_iteration}."
        )

    def _improves(self, score: float) -> bool:
        if math.isnan(self.best_score):
            return not math.isnan(score)
        higher = self.settings.higher_is_better
        return score > self.best_score if higher else score < self.best_score

    def tensors(self) -> dict[str, Tensor]:
        value = math.nan if self.kept is None else self.kept.value
        numbers = [self.best_score, float(self.best_iteration), float(self.checks_since), value]
        kept = {} if self.kept is None else {"vector": self.kept.vector}
        return {"numbers": torch.tensor(numbers, dtype=torch.float64)} | kept

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.best_score, iteration, since, value = tensors["numbers"].tolist()
        self.best_iteration, self.checks_since = int(iteration), int(since)
        if "vector" in tensors:
            self.kept = Best(tensors["vector"], value)
