"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One thing to measure."""

    kind: str  # "score", "curve" or "calibration"
    task: str
    sentences: int | None = None  # of the training part; None: all
    iterations: int | None = None  # None: to the stopping rule
