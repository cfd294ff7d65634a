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


@dataclass(frozen=True)
class Point:
    """One thing to measure."""

    kind: str  # "score", "curve" or "calibration"
    task: str
    sentences: int | None = None  # of the training part; None: all
    iterations: int | None = None  # None: to the stopping rule

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

    def latest(self, kind: str) -> dict[str, dict[str, Any]]:
        """The last row of each point of a kind, by its key."""
        return {Point(**row["point"]).key: row for row in self if row["point"]["kind"] == kind}


def conditions() -> dict[str, Any]:
    """Versions, and the state of the code."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True)
    return {
        "commit": found.stdout.strip() or None,
        "versions": {name: version(name) for name in ("mrflearn", "torch", "numpy")},
        "python": sys.version.split()[0],
        "machine": platform.machine(),
    }
