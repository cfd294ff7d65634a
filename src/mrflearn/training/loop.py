"""The training loop, its checkpoints, and Ctrl-C as a request to stop."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from mrflearn.errors import TrainingError, TrainingWarning, warn_user
from mrflearn.io.files import PathLike
from mrflearn.objectives.base import Objective, Vector, under
from mrflearn.objectives.problem import Meter, Penalty, Problem, Scaling
from mrflearn.training.checkpoint import Checkpoint, checkpoint_of, settings_of, tensors_of
from mrflearn.training.outcome import (
    Best,
    Callback,
    EarlyStopping,
    Outcome,
    Reporter,
    Row,
    Step,
    StopRule,
    Verdict,
    Watch,
    reporting,
)

# Ctrl-C as a request: the first ends training cleanly, the second interrupts at once.


@contextmanager
def interruptible(*, announce: bool = False) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; what Ctrl-C did before is put back at the end.

    Outside the main thread Python allows no signal handlers, and where Ctrl-C is ignored or
    handled by someone else it stays so: then the interrupt is never set here.
    """
    interrupt = threading.Event()
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if interrupt.is_set():
            signal.default_int_handler(number, frame)
        interrupt.set()
        if announce:  # unbuffered, as a handler may run in the middle of another write
            os.write(2, b"\nstopping after this evaluation; Ctrl-C again stops at once\n")

    signal.signal(signal.SIGINT, ask)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# The loop around every training: stop rules, callbacks, progress, Ctrl-C, checkpoints.


M = TypeVar("M")
S = TypeVar("S")


class State(Protocol):
    """Where a training stands between two iterations."""

    iteration: int
    value: float  # NaN where nothing has been evaluated yet
    gradient_norm: float
    size: float  # the Euclidean norm of the parameters
    step: float
    since: int  # the iteration that this descent began with; earlier values are of another

    @property
    def noise(self) -> float:
        """By how much `value` may be off."""

    @property
    def answer(self) -> Any:
        """The parameters to hand out: the current ones, or an average."""


class Plan(ABC, Generic[M]):
    """What the loop iterates: descent to the minimum of an objective, or EM."""

    rule: StopRule
    meter: Meter
    origin: float = 0.0  # a constant that values leave out
    state: State

    @abstractmethod
    def begin(self) -> None:
        """Takes the starting state."""

    @abstractmethod
    def advance(self) -> Verdict | None:
        """Moves the state by one iteration; gives a verdict instead where it cannot.

        `Halt`, raised by an evaluation, leaves a state from which the same iteration can be done.
        """

    def commit(self) -> None:
        """Keeps the warm start of the state that was arrived at."""

    def goes_on(self, verdict: Verdict) -> bool:
        """Whether it has found a way to go on from where a verdict would end it."""
        del verdict
        return False

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on with a training that resumes it."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The complete state, for a checkpoint."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The state that gave these tensors."""

    @abstractmethod
    def at(self, vector: Any) -> M:
        """What is trained, with the parameters of the state's `answer` or of a kept one."""

    def result(self, best: Best, *, exact: bool) -> tuple[M, float]:
        """What is handed out, and the value there; `exact`: evaluated if it is not known."""
        del exact
        return self.at(best.vector), best.value


class Halt(Exception):  # noqa: N818 - not an error: training ends here on purpose
    """Ends training before the next evaluation; the state stays as it was."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


def train(
    plan: Plan[M],
    *,
    callbacks: Sequence[Callback | EarlyStopping] = (),
    progress: bool = False,
    checkpoint: PathLike | Checkpoint | None = None,
    resume: bool = False,
) -> Outcome[M]:
    """Iterates a plan until something ends it; the options are those of `minimise`."""
    saved = checkpoint_of(checkpoint) if checkpoint or resume else None
    watching = [Watch(item) if isinstance(item, EarlyStopping) else item for item in callbacks]
    with interruptible(announce=progress) as interrupt, reporting(progress, plan.rule) as reporter:
        training = _Training(plan, watching, reporter, interrupt, saved)
        training.resume() if resume else training.begin()
        return training.outcome(training.go())


@dataclass(eq=False)
class _Training(Generic[M]):
    """One training under way; `earlier` counts the seconds it took before it was resumed."""

    plan: Plan[M]
    callbacks: Sequence[Callback | Watch]
    reporter: Reporter | None
    interrupt: threading.Event
    checkpoint: Checkpoint | None
    history: list[Row] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    earlier: float = 0.0
    saved: tuple[int, float] = (0, 0.0)  # iteration and seconds at the last checkpoint

    def __post_init__(self) -> None:
        self.watches = [item for item in self.callbacks if isinstance(item, Watch)]

    @property
    def identity(self) -> dict[str, Any]:
        return self.plan.identity() | {"early stopping": len(self.watches)}

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self.started

    def begin(self) -> None:
        self.plan.begin()
        self.plan.commit()
        if math.isfinite(self.plan.state.value):
            self.history.append(self.row())

    def resume(self) -> None:
        assert self.checkpoint is not None  # noqa: S101 - train() made sure
        tensors = self.checkpoint.read(self.identity)
        evaluations, self.earlier = tensors["training.progress"].tolist()
        self.history = [Row.of(numbers) for numbers in tensors["training.history"].tolist()]
        self.plan.restore(tensors)
        self.plan.meter.evaluations = int(evaluations)
        for k, watch in enumerate(self.watches):
            watch.restore(under(f"watch{k}.", tensors), self.plan.state.answer.device)
        self.saved = (self.plan.state.iteration, self.seconds)

    def go(self) -> Verdict:
        """Iterates until something ends it; the last state is then in the checkpoint."""
        meter, before = self.plan.meter, self.plan.meter.before
        meter.before = self.halt_if_due
        try:
            verdict = self.verdict()
            while verdict is None:
                verdict = self.plan.advance() or self.arrive()
                if verdict is not None and self.plan.goes_on(verdict):
                    verdict = self.arrive()
        except Halt as halt:
            verdict = halt.verdict
        finally:
            meter.before = before
        self.save()
        return verdict

    def arrive(self) -> Verdict | None:
        """Keeps and shows the state that the plan has moved to; why to stop there, if so."""
        self.plan.commit()
        verdict = self.look() or self.verdict()
        iteration, seconds = self.saved
        since = (self.plan.state.iteration - iteration, self.seconds - seconds)
        if self.checkpoint is not None and self.checkpoint.due(*since):
            self.save()
        return verdict

    def halt_if_due(self) -> None:
        """Raises `Halt` where no further evaluation should begin."""
        if (verdict := self.limit(-1)) is not None:
            raise Halt(verdict)

    def limit(self, iteration: int) -> Verdict | None:
        """Why not to go on, whatever the values are."""
        if self.interrupt.is_set():
            return Verdict("interrupted", "training was interrupted.")
        return self.plan.rule.limit(iteration, self.plan.meter.evaluations, self.seconds)

    def verdict(self) -> Verdict | None:
        """What the stop rules say about the current state."""
        state = self.plan.state
        if self.interrupt.is_set() or not self.history:
            return self.limit(state.iteration)
        return self.plan.rule.verdict(self.history[state.since :], state.size, state.noise)

    def row(self) -> Row:
        state = self.plan.state
        numbers = (state.iteration, state.value, state.gradient_norm, state.step)
        return Row(*numbers, self.plan.meter.evaluations, self.seconds)

    def reported(self, row: Row) -> Row:
        """The row with the complete value; stop rules see what the functions give."""
        return row._replace(value=row.value + self.plan.origin)

    def look(self) -> Verdict | None:
        """Shows the new state to all callbacks; a verdict where one of them asks to stop."""
        row, verdicts = self.row(), []
        if self.callbacks:
            vector = self.plan.state.answer
            with torch.no_grad():
                step = Step(*self.reported(row)[:6], vector, self.plan.at(vector))
                verdicts = [
                    Verdict("validation", reason)
                    if isinstance(item, Watch)
                    else Verdict("callback", f"stopped by a callback: {reason}")
                    for item in self.callbacks
                    if (reason := item(step))
                ]
        scores = [watch.score for watch in self.watches if watch.score is not None]
        self.history.append(row._replace(validation=scores[0] if scores else None))
        if self.reporter is not None:
            self.reporter.show(self.reported(self.history[-1]))
        return verdicts[0] if verdicts else None

    def outcome(self, verdict: Verdict) -> Outcome[M]:
        """The record handed out: the best state a callback kept, or else the last."""
        plan, state = self.plan, self.plan.state
        kept = [watch.kept for watch in self.watches if watch.kept is not None]
        best = kept[0] if kept else Best(state.answer, state.value + plan.origin)
        model, value = plan.result(best, exact=verdict.ending != "interrupted")
        counts = (state.iteration, plan.meter.evaluations)
        history = tuple(self.reported(row) for row in self.history)
        outcome = Outcome(model, value, *counts, *verdict, history, self.seconds)
        if self.reporter is not None:
            self.reporter.finish(outcome)
        if outcome.failed:
            warn_user(outcome.reason, TrainingWarning)
        return outcome

    def save(self) -> None:
        if self.checkpoint is None:
            return
        rows = [[math.nan if n is None else n for n in row] for row in self.history]
        # Evaluations of an iteration that was broken off are done again.
        evaluations = self.history[-1].evaluations if self.history else 0
        tensors = {
            "training.history": torch.tensor(rows, dtype=torch.float64).reshape(-1, 7),
            "training.progress": torch.tensor([evaluations, self.seconds], dtype=torch.float64),
        }
        tensors |= self.plan.tensors()
        for k, watch in enumerate(self.watches):
            tensors |= {f"watch{k}.{name}": value for name, value in watch.tensors().items()}
        self.checkpoint.write(self.identity, tensors)
        self.saved = (self.plan.state.iteration, self.seconds)


# Descent to the minimum of an objective plus a penalty, by any optimiser.


class Optimiser(Protocol[S]):
    """Frozen settings, and how a `State` moves under them; all the memory is in the state."""

    @property
    def rule(self) -> StopRule: ...

    def blank(self, start: Vector) -> S:
        """A state at the starting point, where nothing has been evaluated; `start` is its own."""

    def begin(self, problem: Problem, state: S) -> None:
        """Evaluates the starting point."""

    def advance(self, problem: Problem, state: S) -> Verdict | None:
        """One iteration, as `Plan.advance` describes it."""

    def restore(self, state: S, tensors: dict[str, Tensor]) -> None:
        """Gives a blank state what `tensors_of` another gave."""


MUCH_NOISE = 64  # roundings of float32: more than this is not the type's, but an iteration's
NO_PENALTY = Penalty()


def minimise(
    objective: Objective[M],
    optimiser: Optimiser[Any],
    *,
    start: Vector | None = None,
    penalty: Penalty = NO_PENALTY,
    scaling: Scaling | None = None,
    callbacks: Sequence[Callback | EarlyStopping] = (),
    progress: bool = False,
    checkpoint: PathLike | Checkpoint | None = None,
    resume: bool = False,
    data: Any = None,
    seed: int = 0,
    in_double: Callable[[], Objective[M]] | None = None,
) -> Outcome[M]:
    """What is trained (`outcome.model`), where the objective plus the penalty is least.

    Parameters
    ----------
    objective
        What to minimise, in float32 or float64, on any device.
    optimiser
        `LBFGS()`, `OWLQN()` for L1, `SGD()`, `Adagrad()` or `Adam()` over the objective's parts.
    start
        The parameters to begin with; None takes the objective's own.
    penalty
        L1 and L2 on the parameters.
    scaling
        Coordinates in which the curvature is about one.
    callbacks
        Called with every `Step`; what they return ends training.
    progress
        Whether training reports on standard error.  Ctrl-C ends it after the current evaluation
        with all that was reached; a second one interrupts at once.
    checkpoint
        A file to save training to every minute and at its end.
    resume
        Whether to continue from the checkpoint, to the same bits as without an interruption.
    data
        What it is learned from, tensors and plain values: what is resumed must have the same.
    seed
        Orders the parts (minibatches).
    in_double
        Makes the same objective for float64 vectors, with which training goes on where float32
        gets stuck.

    Returns
    -------
    Outcome
        The model, the value there, and how training ended.

    """
    begin = objective.start if start is None else start
    _check(objective, begin, seed)
    plan = _Descent(objective, begin.detach(), optimiser, penalty, scaling, seed, in_double)
    saved = None if checkpoint is None else Checkpoint.on(checkpoint, data)
    return train(plan, callbacks=callbacks, progress=progress, checkpoint=saved, resume=resume)


def _check(objective: Objective[Any], start: Tensor, seed: int) -> None:
    if start.dtype not in (torch.float32, torch.float64) or start.ndim != 1:
        raise TrainingError(
            f"parameters are {start.dtype} of shape {tuple(start.shape)}; training needs one flat "
            "vector of float32 or float64."
        )
    if seed < 0:
        raise TrainingError(f"seed={seed}: seeds count from 0.")
    if not bool(start.isfinite().all()):
        index = int((~start.isfinite()).int().argmax())
        place = objective.layout.place(index)
        raise TrainingError(
            f"parameter {place} starts as {float(start[index])}, which is not finite."
        )


@dataclass(eq=False)
class _Descent(Plan[M]):
    """What `minimise` was asked for, and how far it is."""

    objective: Objective[M]
    start: Vector
    optimiser: Optimiser[Any]
    penalty: Penalty
    scaling: Scaling | None
    seed: int
    in_double: Callable[[], Objective[M]] | None
    meter: Meter = field(default_factory=Meter)
    state: Any = None

    def __post_init__(self) -> None:
        self.rule, self.origin = self.optimiser.rule, self.objective.origin
        self.current = self.problem(self.start.dtype)

    def problem(self, dtype: torch.dtype) -> Problem:
        """What is minimised, for vectors of a type; nothing is evaluated yet."""
        objective = self.objective
        if dtype != self.start.dtype:
            assert self.in_double is not None  # noqa: S101 - `goes_on` asked
            objective = self.in_double()
        like = self.start.to(dtype)
        return Problem(objective, self.penalty, self.scaling, like, self.seed, self.meter)

    def begin(self) -> None:
        scaling = self.current.scaling
        self.begin_at(self.start.clone() if scaling is None else scaling.scaled(self.start))

    def begin_at(self, vector: Vector) -> None:
        """Takes the state at a vector of scaled coordinates, which becomes the state's own."""
        self.state = self.optimiser.blank(vector)
        self.optimiser.begin(self.current, self.state)

    def advance(self) -> Verdict | None:
        verdict, advice = self.optimiser.advance(self.current, self.state), self.objective.advice
        if verdict is not None and verdict.ending == "stuck" and advice:
            return verdict._replace(reason=f"{verdict.reason} {advice}")
        return verdict

    def commit(self) -> None:
        self.current.objective.commit()

    def goes_on(self, verdict: Verdict) -> bool:
        """Begins again in float64 where values are off by more than float32 explains, or stuck."""
        state = self.state
        if self.in_double is None or state.vector.dtype != torch.float32:
            return False
        rounding = MUCH_NOISE * torch.finfo(torch.float32).eps
        # More than float32 explains, and than a gain that counts as none.
        noisy = state.noise > max(rounding, self.rule.delta or 0.0) * abs(state.value)
        if verdict.ending != "stuck" and not (verdict.ending == "value" and noisy):
            return False
        self.current = self.problem(torch.float64)
        self.begin_at(state.vector.double())
        self.state.iteration = self.state.since = state.iteration + 1
        return True

    def identity(self) -> dict[str, Any]:
        layout = self.objective.layout
        named = zip(layout.names, layout.shapes, strict=True)
        own = {
            "objective": type(self.objective).__name__,
            "parameters": {name: list(shape) for name, shape in named},
            "dtype": str(self.start.dtype).removeprefix("torch."),
        }
        rest = {"penalty": repr(self.penalty), "batches": self.objective.parts, "seed": self.seed}
        return own | settings_of(self.optimiser) | rest

    def tensors(self) -> dict[str, Tensor]:
        own = {f"state.{name}": value for name, value in tensors_of(self.state).items()}
        inner = self.current.objective.state()
        return own | {f"objective.{name}": value for name, value in inner.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        own = under("state.", tensors)
        like = self.start.to(own["vector"].dtype, copy=True)
        if like.dtype != self.start.dtype:
            self.current = self.problem(like.dtype)
        self.current.objective.restore(under("objective.", tensors))
        self.state = self.optimiser.blank(like)
        self.optimiser.restore(self.state, own)

    def at(self, vector: Vector) -> M:
        """What the objective stands for, in the type that training began with."""
        natural = self.current.natural(vector.to(self.state.vector.dtype))
        return self.objective.at(natural.to(self.start.dtype))

    def result(self, best: Best, *, exact: bool) -> tuple[M, float]:
        value = best.value
        if exact and not self.state.exact and not self.objective.random:
            value = self.current.value(best.vector) + self.origin
        return self.at(best.vector.clone()), value
