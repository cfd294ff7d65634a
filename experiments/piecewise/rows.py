"""What is measured, and the file of what was."""

from __future__ import annotations

from dataclasses import dataclass

import results
from results import Row


@dataclass(frozen=True)
class Point:
    """One training and its test: a draw is a random subset, a fold or a generating model."""

    task: str
    estimator: str
    draw: int = 0
    size: int | None = None  # sentences to train on; None: all there are
    iterations: int | None = None  # None: to the stopping rule
    start: str = "zero"  # or "chain": BP begins from the parameters of the chain alone
    c2: float = 0.05  # half of one over the prior's variance, which is 10 in the paper
    held_out: bool = False  # the last fifth of the training sentences is the test set


class Rows(results.Rows):
    """The file of results; rows of older runs lack settings that had one value then."""

    def of(self, task: str, estimator: str | None = None, c2: float = Point.c2) -> list[Row]:
        """The last row of each point of a task with one prior, by draws and sizes."""
        latest = {Point(**row["point"]): row for row in self}
        chosen = [
            (point.draw, point.size or 0, row)
            for point, row in latest.items()
            if point.task == task
            and estimator in (None, point.estimator)
            and not point.held_out
            and point.c2 == c2
        ]
        return [row for *_, row in sorted(chosen, key=lambda own: own[:2])]
