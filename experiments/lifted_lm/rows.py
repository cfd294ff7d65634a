"""Rows of results in a file of JSON lines: appended one by one, never deleted, read to go on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mrflearn


class Rows:
    """Each row holds its point (what was asked), its figures, and where they come from."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path.parent
        path.parent.mkdir(parents=True, exist_ok=True)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as stream:
                yield from map(json.loads, stream)

    def of(self, part: str) -> list[dict[str, Any]]:
        """The rows of one figure or table, the latest of each point."""
        latest = {json.dumps(row["point"]): row for row in self if row["point"]["part"] == part}
        return list(latest.values())

    def measure(self, point: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row of a point: from the file if it is there, else measured now and appended."""
        for row in self:
            if row["point"] == point:
                return row
        began = time.perf_counter()
        figures = work()
        row = {
            "point": point,
            "figures": figures,
            "seconds": round(time.perf_counter() - began, 3),
            "threads": torch.get_num_threads(),
            "load": os.getloadavg()[0],
            "commit": _commit(),
            "versions": {
                "python": platform.python_version(),
                "mrflearn": mrflearn.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
        }
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        return row


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
