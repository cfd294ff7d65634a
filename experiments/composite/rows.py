"""Rows of results: appended as they come, read back to continue, never deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Rows:
    """A file of JSON lines; a row is done when one with the same point stands there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                yield json.loads(line)

    def has(self, point: Mapping[str, Any]) -> bool:
        """Whether this point was measured before."""
        return any(all(row.get(k) == v for k, v in point.items()) for row in self)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row, on disk before anything else happens."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
