"""Results as lines of JSON: appended, never deleted; a rerun continues where the last one ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Point:
    """One tagger on one task; a share of the sentences keeps its tags."""

    task: str
    system: str
    labelled: float = 1.0
    unlabelled: bool = False  # whether the other sentences are learned from, without their tags
    evaluations: int | None = None  # None: the tagger's own limit

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


class Rows:
    """The file of results."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                yield json.loads(line)

    def latest(self) -> dict[Point, dict[str, Any]]:
        """The last row of each point."""
        return {Point(**row["point"]): row for row in self}

    def append(self, point: Point, figures: Mapping[str, Any]) -> None:
        """Adds a measurement and what it was made with."""
        row = {"point": asdict(point), **figures, **conditions()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def conditions() -> dict[str, Any]:
    """Versions, and the state of the code."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(
        git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return {
        "commit": found.stdout.strip() or None,
        "versions": {name: version(name) for name in ("mrflearn", "torch", "numpy")},
        "python": sys.version.split()[0],
    }
