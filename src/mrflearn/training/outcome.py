"""How a training goes and how it ended: history, stop rules, early stopping, progress, outcome.

Progress goes to standard error: a live line on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import StorageError, TrainingError, TrainingWarning, warn_user

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)

Ending = Literal["gradient", "value", "limit", "validation", "callback", "interrupted", "stuck"]


class Verdict(NamedTuple):
    """Why a training ends: one word for programs, one sentence for people."""

    ending: Ending
    reason: str


class Row(NamedTuple):
    """One line of the history.  `step` is the step length, or the learning rate."""

    iteration: int
    value: float
    gradient_norm: float
    step: float
    evaluations: int
    seconds: float
    validation: float | None = None

    @classmethod
    def of(cls, numbers: Sequence[Any]) -> Row:
        """The row whose entries were stored as these; no validation is None or NaN."""
        iteration, value, norm, step, evaluations, seconds, validation = map(_number, numbers)
        score = None if math.isnan(validation) else validation
        return cls(int(iteration), value, norm, step, int(evaluations), seconds, score)


@dataclass(frozen=True, eq=False)
class Step(Generic[M_co]):
    """What callbacks see after each iteration.

    `vector` and the parameters of `model` (under `minimise` the vector itself) lie in buffers that
    training writes again later: clone what is to be kept.
    """

    iteration: int
    value: float
    gradient_norm: float
    step: float
    evaluations: int
    seconds: float
    vector: Float[Tensor, " p"]
    model: M_co


@dataclass(frozen=True, eq=False)
class Outcome(Generic[M_co]):
    """A fitted model (under `minimise`, a vector), the penalised value there, and how it ended.

    `evaluations` counts passes over all batches.  `ending` is "gradient" or "value" where an
    optimum was found as asked, else "limit", "validation", "callback", "interrupted" or "stuck".
    """

    model: M_co
    value: float
    iterations: int
    evaluations: int
    ending: Ending
    reason: str
    history: tuple[Row, ...]
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether training ended because there was nothing more to gain."""
        return self.ending in ("gradient", "value")

    @property
    def failed(self) -> bool:
        """Whether training ended far from an optimum because it could not go on."""
        return self.ending == "stuck"

    def figures(self) -> dict[str, Any]:
        """How training went, as plain values: all but the model; None stands for nan and inf."""
        names = ("value", "iterations", "evaluations", "ending", "reason", "seconds")
        history = [[_finite(entry) for entry in row] for row in self.history]
        return {name: _finite(getattr(self, name)) for name in names} | {"history": history}

    @staticmethod
    def from_figures(model: M, figures: Mapping[str, Any]) -> Outcome[M]:
        """The outcome of that model whose `figures` these are; warns where training failed."""
        ending, reason = figures["ending"], figures["reason"]
        if ending not in get_args(Ending) or not isinstance(reason, str):
            raise StorageError("the outcome of training does not say how it ended")
        if ending == "stuck":
            warn_user(reason, TrainingWarning)
        value, seconds = (_number(figures[name]) for name in ("value", "seconds"))
        steps, calls = (int(_number(figures[name])) for name in ("iterations", "evaluations"))
        history = tuple(map(Row.of, figures["history"]))
        return Outcome(model, value, steps, calls, ending, reason, history, seconds)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(stored: Any) -> float:
    if stored is None:
        return math.nan
    if not isinstance(stored, int | float):
        raise StorageError("the outcome of training should be numbers")
    return float(stored)


# When training is over.


@final
@dataclass(frozen=True)
class StopRule:
    """The rules an optimiser stops by; `None` switches a rule off.

    - gradient: |g| max(1, |w|) <= tolerance max(1, |value|), norms Euclidean [Dennis & Schnabel
      1983, section 7.2]: the change of the value, relative, for a relative change of the weights.
    - value: it fell by less than delta |value|, or by less than its noise, over the last `period`
      iterations (CRFsuite's rule).
    - target: the value is below it.
    - limits on iterations, evaluations, seconds (all counted through a resumed training).
    """

    max_iterations: int
    max_evaluations: int | None = None
    max_seconds: float | None = None
    tolerance: float | None = None
    period: int = 10
    delta: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if self.max_iterations < 0 or self.period < 1:
            raise TrainingError(
                f"max_iterations={self.max_iterations} must be >= 0, period={self.period} >= 1."
            )

    def verdict(self, history: Sequence[Row], size: float, noise: float) -> Verdict | None:
        """Why to stop after the last row (weights of norm `size`, a value with that noise)."""
        row = history[-1]
        relative = row.gradient_norm * max(1.0, size) / max(1.0, abs(row.value))
        if self.tolerance is not None and relative <= self.tolerance:
            text = f"the gradient is small: {relative:.1e}, relative (<= {self.tolerance:g})."
            return Verdict("gradient", text)
        if self.delta is not None and len(history) > self.period:
            fallen = history[-1 - self.period].value - row.value
            least = max(self.delta * abs(row.value), noise)
            if not fallen > least:
                over = f"over the last {self.period} iterations (<= {least:.2g})."
                text = f"the value has nearly stopped falling: by {fallen:.2g} {over}"
                return Verdict("value", text)
        if self.target is not None and row.value < self.target:
            return Verdict(
                "value", f"the value is low enough: {row.value:.2g} < {self.target:.2g}."
            )
        return self.limit(row.iteration, row.evaluations, row.seconds)

    def limit(self, iteration: int, evaluations: int, seconds: float) -> Verdict | None:
        """Which limit is reached, or None."""
        reached = (
            (iteration, self.max_iterations, "iterations"),
            (evaluations, self.max_evaluations, "evaluations"),
            (seconds, self.max_seconds, "seconds"),
        )
        for count, most, name in reached:
            if most is not None and count >= most:
                return Verdict("limit", f"the limit of {most:.10g} {name} is reached.")
        return None


# What may look on after each iteration, and stop the training: any function of a `Step`.


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
        sign = 1 if self.settings.higher_is_better else -1
        first = math.isnan(self.best_score) and not math.isnan(self.score)
        if first or sign * self.score > sign * self.best_score:
            self.best_score, self.best_iteration = self.score, step.iteration
            self.checks_since = 0
            self.kept = Best(step.vector.clone(), step.value)
            return None
        self.checks_since += 1
        if self.checks_since < self.settings.patience:
            return None
        return (
            f"the validation score has not improved for {self.checks_since} checks; "
            f"the best, {self.best_score:.6g} at iteration {self.best_iteration}, is kept."
        )

    def tensors(self) -> dict[str, Tensor]:
        value = math.nan if self.kept is None else self.kept.value
        numbers = [self.best_score, float(self.best_iteration), float(self.checks_since), value]
        kept = {} if self.kept is None else {"vector": self.kept.vector}
        return {"numbers": torch.tensor(numbers, dtype=torch.float64)} | kept

    def restore(self, tensors: dict[str, Tensor], device: torch.device) -> None:
        self.best_score, iteration, since, value = tensors["numbers"].tolist()
        self.best_iteration, self.checks_since = int(iteration), int(since)
        if "vector" in tensors:
            self.kept = Best(tensors["vector"].to(device), value)


# What is reported on standard error while training runs.


SECONDS_BETWEEN_LINES = 5.0
LONGEST_ESTIMATE = 24 * 3600.0  # seconds; nobody waits for the end of a limit beyond it
MANY_ITERATIONS = 1_000_000  # a limit from here on is none: no bar is filled up to it
BAR_WIDTH = 10


@final
@dataclass
class Reporter:
    """A live line on a terminal (`bar`), else a plain one every few seconds; and one at the end."""

    rule: StopRule
    bar: Progress | None = None
    first: Row | None = None  # of this run: earlier ones do not count for its pace
    last: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.bar is not None:
            most = self.rule.max_iterations
            self.bar.add_task("training", total=most if most < MANY_ITERATIONS else None)

    def show(self, row: Row) -> None:
        text = f"{describe(row)}, {self.pace(row)}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=row.iteration, description=text)
        elif time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            sys.stderr.write(f"iteration {row.iteration}: {text}\n")

    def finish(self, outcome: Outcome[Any]) -> None:
        if self.bar is not None:
            self.bar.remove_task(self.bar.task_ids[0])
            self.bar.console.print(summary(outcome), highlight=False, markup=False)
        else:
            sys.stderr.write(f"{summary(outcome)}\n")

    def pace(self, row: Row) -> str:
        """The time left at most, where a limit is near enough to say, and evaluations a second."""
        self.first = self.first or row
        seconds = row.seconds - self.first.seconds
        iterations = row.iteration - self.first.iteration
        if seconds <= 0 or iterations <= 0:
            return "first iteration"
        evaluations = row.evaluations - self.first.evaluations
        left = (self.rule.max_iterations - row.iteration) * seconds / iterations
        if self.rule.max_evaluations is not None and evaluations > 0:
            ahead = self.rule.max_evaluations - row.evaluations
            left = min(left, ahead * seconds / evaluations)
        if self.rule.max_seconds is not None:
            left = min(left, self.rule.max_seconds - row.seconds)
        rate = f"{evaluations / seconds:.3g} evaluations/s"
        return f"at most {clock(left)} left, {rate}" if left <= LONGEST_ESTIMATE else rate


@contextmanager
def reporting(wanted: bool, rule: StopRule) -> Iterator[Reporter | None]:
    """The reporter that suits standard error; None where none is wanted."""
    if not wanted or not sys.stderr.isatty():
        yield Reporter(rule) if wanted else None
        return
    from rich.console import Console

    with live_bar(Console(stderr=True)) as bar:
        yield Reporter(rule, bar)


def live_bar(console: Console) -> Progress:
    """A bar, the count and a text, which is cut where the line is short; the others are not."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    text = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        BarColumn(BAR_WIDTH, table_column=Column(width=BAR_WIDTH)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.description}", table_column=text),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


def describe(row: Row) -> str:
    """Value, gradient norm and validation score of one iteration."""
    validation = "" if row.validation is None else f", validation {row.validation:.5g}"
    # Expectation-maximisation knows no gradient.
    norm = "" if math.isnan(row.gradient_norm) else f", |gradient| {row.gradient_norm:.2e}"
    return f"value {row.value:.8g}{norm}{validation}"


def summary(outcome: Outcome[Any]) -> str:
    """How it ended, in one line."""
    if not outcome.history:
        return outcome.reason
    counts = f"{outcome.iterations} iterations, {outcome.evaluations} evaluations"
    last = f"{describe(outcome.history[-1])}; {counts}, {clock(outcome.seconds)}"
    return f"{outcome.reason} {last}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:03; seconds alone, as in 4.2 s, where few."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
