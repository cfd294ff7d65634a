"""How training is going, on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO, final

from mrflearn.training.outcome import Row, Verdict
from mrflearn.training.stopping import StopRule

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SECONDS_BETWEEN_LINES = 5.0
LONGEST_ESTIMATE = 24 * 3600.0  # seconds; nobody waits for the end of a limit beyond it
MANY_ITERATIONS = 1_000_000  # a limit from here on is none: no bar is filled up to it
BAR_WIDTH = 10


class Reporter(Protocol):
    """What is told to the user while training runs."""

    def show(self, row: Row) -> None: ...

    def finish(self, row: Row | None, verdict: Verdict) -> None: ...


@final
@dataclass
class Pace:
    """How fast this run goes and how long it may still take; earlier runs do not count."""

    rule: StopRule
    first: Row | None = None

    def of(self, row: Row) -> str:
        """The time left at most, where a limit is near enough to tell, and evaluations a second."""
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


@final
class Silent:
    """Says nothing."""

    def show(self, row: Row) -> None: ...

    def finish(self, row: Row | None, verdict: Verdict) -> None: ...


@final
@dataclass
class LineReport:
    """A plain line every few seconds, and one at the end."""

    stream: TextIO
    pace: Pace
    last: float = field(default_factory=time.monotonic)

    def show(self, row: Row) -> None:
        pace = self.pace.of(row)
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            self._write(f"iteration {row.iteration}: {describe(row)}, {pace}")

    def finish(self, row: Row | None, verdict: Verdict) -> None:
        self._write(summary(row, verdict))

    def _write(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()


@final
@dataclass
class Live:
    """One line that changes in place."""

    bar: Progress
    pace: Pace

    def __post_init__(self) -> None:
        most = self.pace.rule.max_iterations
        self.task = self.bar.add_task("training", total=most if most < MANY_ITERATIONS else None)

    def show(self, row: Row) -> None:
        text = f"{describe(row)}, {self.pace.of(row)}"
        self.bar.update(self.task, completed=row.iteration, description=text)

    def finish(self, row: Row | None, verdict: Verdict) -> None:
        self.bar.remove_task(self.task)
        self.bar.console.print(summary(row, verdict), highlight=False, markup=False)


@contextmanager
def reporting(wanted: bool, rule: StopRule) -> Iterator[Reporter]:
    """The reporter that suits standard error, or a silent one."""
    if not wanted:
        yield Silent()
    elif not sys.stderr.isatty():
        yield LineReport(sys.stderr, Pace(rule))
    else:
        from rich.console import Console

        with live_bar(Console(stderr=True)) as bar:
            yield Live(bar, Pace(rule))


def live_bar(console: Console) -> Progress:
    """A bar, the count and a text, which is cut where the line is short; the others are not."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    text = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        BarColumn(BAR_WIDTH, table_column=Column(width=BAR_WIDTH)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.description}", table_column=text),
        console=console,
        transient=True,
        expand=True,
    )


def describe(row: Row) -> str:
    """Value, gradient norm and validation score of one iteration."""
    validation = "" if row.validation is None else f", validation {row.validation:.5g}"
    # Expectation-maximisation knows no gradient.
    norm = "" if math.isnan(row.gradient_norm) else f", |gradient| {row.gradient_norm:.2e}"
    return f"value {row.value:.8g}{norm}{validation}"


def summary(row: Row | None, verdict: Verdict) -> str:
    """How it ended, in one line."""
    if row is None:
        return verdict.reason
    return (
        f"{verdict.reason} {describe(row)}; {row.iteration} iterations, "
        f"{row.evaluations} evaluations, {clock(row.seconds)}"
    )


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:03; seconds alone, as in 4.2 s, where few."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
