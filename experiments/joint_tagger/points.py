"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One tagger on one task; a share of the sentences keeps its tags."""

    task: str
    system: str
    labelled: float = 1.0
    unlabelled: bool = False  # whether the other sentences are learned from, without their tags
    evaluations: int | None = None  # iterations; None: the tagger's own limit
