"""Expectation-maximisation of any model: stop rules, progress, Ctrl-C, checkpoints, best so far.

A model with hidden variables offers one function, `step`: from parameters to the value there (the
negative log-likelihood in nats) and the parameters that maximise the expected complete likelihood.
The value never rises from one step to the next; where it does, something is wrong and is told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.training.checkpoint import Checkpoint, check_same, read_checkpoint, write_checkpoint
from mrflearn.training.loop import Interrupt, interruptible
from mrflearn.training.outcome import Outcome, Row, Verdict
from mrflearn.training.progress import Reporter, reporting
from mrflearn.training.stopping import StopRule

Parameters: TypeAlias = dict[str, Tensor]
StepFunction: TypeAlias = Callable[[Parameters], tuple[float, Parameters]]


@final
@dataclass(frozen=True)
class EM:
    """How to run: at most `max_iterations` steps, until one gains less than tolerance |value|.

    `slack` is the relative rise of the value that rounding may explain.  With `patience`, training
    also ends when the validation score has not risen for so many steps.
    """

    max_iterations: int = 50
    tolerance: float = 1e-5
    slack: float = 1e-9
    patience: int | None = None
    max_seconds: float | None = None

    @property
    def rule(self) -> StopRule:
        return StopRule(
            self.max_iterations, max_seconds=self.max_seconds, period=1, delta=self.tolerance
        )

    def fit(
        self,
        step: StepFunction,
        start: Parameters,
        *,
        validate: Callable[[Parameters], float] | None = None,
        identity: Mapping[str, Any] | None = None,
        progress: bool = False,
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> Outcome[Parameters]:
        """The parameters of the best validation score, or else the last ones.

        `identity` says what a checkpoint belongs to; a resumed training must have the same.
        """
        if resume and checkpoint is None:
            raise TrainingError("resume needs the checkpoint to go on from.")
        if checkpoint is not None:
            checkpoint.check_writable()
        with (
            interruptible(announce=progress) as interrupt,
            reporting(progress, self.rule) as reporter,
        ):
            run = _Run(self, step, start, validate, interrupt, reporter, checkpoint)
            run.identity = {"training": "EM", **(identity or {})}
            if resume:
                run.restore()
            return run.outcome(run.go())


@final
@dataclass(eq=False)
class _Run:
    """One training under way; `now` is where the next step starts, `best` what to hand out."""

    settings: EM
    step: StepFunction
    now: Parameters
    validate: Callable[[Parameters], float] | None
    interrupt: Interrupt
    reporter: Reporter
    checkpoint: Checkpoint | None
    identity: dict[str, Any] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    best: Parameters | None = None
    best_row: int = -1  # its place in the history
    started: float = field(default_factory=time.monotonic)
    earlier: float = 0.0
    saved: tuple[int, float] = (0, 0.0)

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self.started

    def go(self) -> Verdict:
        """Steps until something ends it; every row is of the parameters a step started from."""
        verdict = self.verdict()
        while verdict is None:
            before = self.now
            value, self.now = self.step(before)
            self.look(before, value)
            verdict = self.verdict()
            if verdict is not None and verdict.ending in ("value", "callback"):
                self.now = before  # a further step would gain nothing, or was not validated
            self.save_if_due()
        self.save()
        self.reporter.finish(self.history[-1] if self.history else None, verdict)
        return verdict

    def look(self, before: Parameters, value: float) -> None:
        """Notes what was found at the parameters before the step."""
        if not math.isfinite(value):
            raise TrainingError(
                f"the log-likelihood is {-value} after {len(self.history)} steps: some sentence or "
                "document cannot be produced at all. Give the model a level that can produce any "
                "word, or take such data out."
            )
        if self.history and value > self.history[-1].value + self.settings.slack * abs(value):
            raise TrainingError(
                f"the log-likelihood fell from {-self.history[-1].value:.10g} to {-value:.10g} in "
                f"step {len(self.history)}, which expectation-maximisation cannot do. Is the model "
                "in single precision? Then allow more slack."
            )
        score = None if self.validate is None else self.validate(before)
        count = len(self.history)
        self.history.append(Row(count, value, math.nan, 1.0, count + 1, self.seconds, score))
        if score is not None and self._improves(score):
            self.best, self.best_row = before, count
        self.reporter.show(self.history[-1])

    def _improves(self, score: float) -> bool:
        known = None if self.best_row < 0 else self.history[self.best_row].validation
        return known is None or score > known

    def verdict(self) -> Verdict | None:
        if self.interrupt.asked:
            return Verdict("interrupted", "training was interrupted.")
        if not self.history:
            return self.settings.rule.limit(0, 0, self.seconds)
        patience, last = self.settings.patience, self.history[-1]
        if patience is not None and last.iteration - self.best_row >= patience > 0:
            return Verdict("callback", f"the validation score has not risen for {patience} steps.")
        done = last._replace(iteration=len(self.history))
        return self.settings.rule.verdict(done, 1.0, self.history, torch.finfo(torch.float64).eps)

    def outcome(self, verdict: Verdict) -> Outcome[Parameters]:
        """The record handed out; its value is the last one known at or before its parameters."""
        chosen = self.now if self.best is None else self.best
        row = self.best_row if self.best is not None else len(self.history) - 1
        value = self.history[row].value if self.history else math.nan
        counts = (len(self.history), len(self.history))
        return Outcome(chosen, value, *counts, *verdict, tuple(self.history), self.seconds)

    def restore(self) -> None:
        assert self.checkpoint is not None  # noqa: S101 - fit() made sure
        identity, tensors = read_checkpoint(self.checkpoint.path)
        check_same(self.checkpoint.path, identity, self.identity)
        self.earlier, best_row = tensors.pop("em.progress").tolist()
        self.best_row = int(best_row)
        for iteration, value, seconds, validation in tensors.pop("em.history").tolist():
            score = None if math.isnan(validation) else validation
            row = Row(int(iteration), value, math.nan, 1.0, int(iteration) + 1, seconds, score)
            self.history.append(row)
        like = self.now
        self.now = {name: tensors[f"now.{name}"].to(value) for name, value in like.items()}
        if self.best_row >= 0:
            self.best = {name: tensors[f"best.{name}"].to(value) for name, value in like.items()}
        self.saved = (len(self.history), self.seconds)

    def save_if_due(self) -> None:
        steps, seconds = self.saved
        since = (len(self.history) - steps, self.seconds - seconds)
        if self.checkpoint is not None and self.checkpoint.due(*since):
            self.save()

    def save(self) -> None:
        if self.checkpoint is None:
            return
        rows = [
            [r.iteration, r.value, r.seconds, math.nan if r.validation is None else r.validation]
            for r in self.history
        ]
        tensors = {
            "em.history": torch.tensor(rows, dtype=torch.float64).reshape(-1, 4),
            "em.progress": torch.tensor([self.seconds, self.best_row], dtype=torch.float64),
        }
        tensors |= {f"now.{name}": value for name, value in self.now.items()}
        tensors |= {f"best.{name}": value for name, value in (self.best or {}).items()}
        write_checkpoint(self.checkpoint.path, self.identity, tensors)
        self.saved = (len(self.history), self.seconds)
