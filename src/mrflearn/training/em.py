"""Expectation-maximisation of any model, under the training loop that descents share.

A model with hidden variables offers one function, `step`: from parameters to the value there (the
negative log-likelihood in nats) and the parameters that maximise the expected complete likelihood.
The value never rises from one step to the next; where it does, that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.io.files import PathLike
from mrflearn.objectives.base import under
from mrflearn.objectives.problem import Meter
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.loop import Plan, train
from mrflearn.training.outcome import Outcome, StopRule, Verdict

Parameters: TypeAlias = dict[str, Tensor]
StepFunction: TypeAlias = Callable[[Parameters], tuple[float, Parameters]]


@final
@dataclass(frozen=True)
class EM:
    """How to run: at most `max_iterations` steps, until one gains less than tolerance |value|.

    `slack` is the relative rise of the value that rounding may explain.
    """

    max_iterations: int = 50
    tolerance: float = 1e-5
    slack: float = 1e-9

    def fit(
        self,
        step: StepFunction,
        start: Parameters,
        *,
        identity: Mapping[str, Any] | None = None,
        progress: bool = False,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Outcome[Parameters]:
        """The parameters after the last step; row k of the history has the value before step k.

        `identity` says what a checkpoint belongs to; a resumed training must have the same.
        """
        plan = _Steps(self, step, _State(start, start), dict(identity or {}))
        return train(plan, progress=progress, checkpoint=checkpoint, resume=resume)


@dataclass(eq=False)
class _State:
    """The parameters to hand out, those that the last step began at, and the value there."""

    answer: Parameters
    before: Parameters
    iteration: int = 0
    value: float = math.nan
    # No fields, as these never change.
    gradient_norm = math.nan
    size = 1.0
    step = 1.0
    since = 0
    noise = 0.0


@dataclass(eq=False)
class _Steps(Plan[Parameters]):
    """Steps of EM under way."""

    settings: EM
    step: StepFunction
    state: _State
    belongs_to: dict[str, Any]
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        self.rule = StopRule(self.settings.max_iterations, period=1, delta=self.settings.tolerance)

    def begin(self) -> None: ...

    def advance(self) -> None:
        self.meter.before()
        before, last = self.state.answer, self.state.value
        value, after = self.step(before)
        if not math.isfinite(value):
            raise TrainingError(
                f"the log-likelihood is {-value} after {self.state.iteration} steps: some sentence "
                "or document cannot be produced at all. Give the model a level that can produce "
                "any word, or take such data out."
            )
        if value > last + self.settings.slack * abs(value):
            raise TrainingError(
                f"the log-likelihood fell from {-last:.10g} to {-value:.10g} in step "
                f"{self.state.iteration}, which expectation-maximisation cannot do. Is the model "
                "in single precision? Then allow more slack."
            )
        self.state = _State(after, before, self.state.iteration + 1, value)
        self.meter.evaluations += 1

    def goes_on(self, verdict: Verdict) -> bool:
        if verdict.ending == "value":  # a further step gains nothing
            self.state.answer = self.state.before
        return False

    def identity(self) -> dict[str, Any]:
        return {"training": "EM", **self.belongs_to}

    def tensors(self) -> Parameters:
        return {f"state.{name}": value for name, value in self.state.answer.items()}

    def restore(self, tensors: Parameters) -> None:
        saved, rows = under("state.", tensors), tensors["training.history"]
        now = {name: saved[name].to(value) for name, value in self.state.answer.items()}
        last = float(rows[-1, 1]) if len(rows) else math.nan
        self.state = _State(now, now, len(rows), last)

    def at(self, vector: Parameters) -> Parameters:
        return vector
