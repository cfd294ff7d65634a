"""Results as lines of JSON: appended, never deleted; a rerun continues where the last one ended."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mrflearn


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

    @property
    def key(self) -> str:
        return json.dumps(vars(self), sort_keys=True)


class Rows:
    """The file of results."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                yield json.loads(line)

    def done(self) -> set[str]:
        """The keys of the points that have been measured."""
        return {Point(**row["point"]).key for row in self}

    def append(self, point: Point, figures: Mapping[str, Any]) -> None:
        """Adds a measurement and what it was made with."""
        row = {"point": vars(point), **figures, **conditions()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def of(self, task: str, estimator: str | None = None) -> list[dict[str, Any]]:
        """The last row of each point of a task with the paper's prior, by draws and sizes."""
        latest = {Point(**row["point"]).key: row for row in self}
        chosen = [
            row
            for row in latest.values()
            if row["point"]["task"] == task
            and estimator in (None, row["point"]["estimator"])
            and not row["point"].get("held_out")
            and row["point"].get("c2", Point.c2) == Point.c2
        ]
        return sorted(chosen, key=lambda row: (row["point"]["draw"], row["point"]["size"] or 0))


def conditions() -> dict[str, Any]:
    """Versions, and the state of the code."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True)
    return {
        "commit": found.stdout.strip() or None,
        "versions": {"mrflearn": mrflearn.__version__}
        | {name: version(name) for name in ("torch", "numpy")},
        "python": sys.version.split()[0],
        "machine": platform.machine(),
    }
