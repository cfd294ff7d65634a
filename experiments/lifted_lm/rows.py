"""The file of what was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results
from results import Row


class Rows(results.Rows):
    """Each row holds its point (what was asked), its figures, and where they come from."""

    @property
    def folder(self) -> Path:
        """Where the rows and everything made from them lie."""
        return self.path.parent

    def of(self, part: str) -> list[Row]:
        """The rows of one figure or table, the latest of each point."""
        return self.latest(part=part)

    def measure(self, point: dict[str, Any], work: Callable[[], dict[str, Any]]) -> Row:
        """The row of a point: from the file if it is there, else measured now and appended."""
        for row in self:
            if row["point"] == point:
                return row
        began = time.perf_counter()
        figures = work()
        seconds = round(time.perf_counter() - began, 3)
        found = {"figures": figures, "seconds": seconds, "load": os.getloadavg()[0]}
        return self.append(point, found, results.code_of(work))
