"""Results of an experiment as lines of JSON: appended, never deleted; a rerun goes on from them."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

import mrflearn

HERE = Path(__file__).parent
Point: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]


class Rows:
    """A file of rows; each holds its point (what was asked), its figures and what made them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Row]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as stream:
                yield from map(json.loads, stream)

    def __contains__(self, point: Point) -> bool:
        return any(row["point"] == dict(point) for row in self)

    def latest(self, **wanted: Any) -> list[Row]:
        """The last row of each point that has these entries, in the order they first came."""
        found = {}
        for row in self:
            if wanted.items() <= row["point"].items():
                found[json.dumps(row["point"], sort_keys=True)] = row
        return list(found.values())

    def append(self, point: Point, figures: Mapping[str, Any]) -> Row:
        """Adds a measurement, on disk before anything else happens; the row as it stands there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        row = {"point": dict(point), **figures, **_conditions()}
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        return row


def _conditions() -> Row:
    """Versions, threads, and the commit of the code; "-dirty" if some of it is not committed."""
    commit = _git("rev-parse", "--short", "HEAD")
    if commit is not None and _git("status", "--porcelain", "--", ":/*.py"):
        commit += "-dirty"
    return {
        "commit": commit,
        "versions": {package.__name__: package.__version__ for package in (mrflearn, np, torch)},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _git(*command: str) -> str | None:
    """What git prints about the repository of this code; None where there is none."""
    try:
        found = subprocess.run(
            ["git", *command], cwd=HERE, capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return None
    return found.stdout.strip() or None
