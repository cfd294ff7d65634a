"""What one point of the plan comes to: accuracy on validation and test sentences, and effort."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from points import Point
from systems import Fitted, fit
from tasks import TASKS, Parts, Sentence

from mrflearn.evaluation.tagging import tagging_report


def measured(data: Path, point: Point) -> dict[str, Any]:
    """What the point asks for."""
    return measure(_parts(point.task, data), point)


@lru_cache(maxsize=1)
def _parts(task: str, data: Path) -> Parts:
    return TASKS[task](data)


def measure(parts: Parts, point: Point) -> dict[str, Any]:
    """Accuracy on validation and test sentences, and what it took."""
    labelled = spread(parts.train, point.labelled)
    kept = {id(s) for s in labelled}
    plain = [s for s in parts.train if id(s) not in kept] if point.unlabelled else []
    began = time.perf_counter()
    fitted = fit(point.system, labelled, plain, point.evaluations)
    seconds = time.perf_counter() - began
    known = {word for sentence in labelled for word in sentence.words}
    figures: dict[str, Any] = {"sentences": len(labelled), "train_seconds": round(seconds, 2)}
    for name in ("valid", "test"):
        part: list[Sentence] = getattr(parts, name)
        figures[name] = rate(fitted, part, known) if part else None
    return figures


def rate(fitted: Fitted, part: Sequence[Sentence], known: set[str]) -> dict[str, Any]:
    """Accuracy of all tokens, of those seen with a tag and of the others; tokens a second."""
    began = time.perf_counter()
    predicted = fitted.predict(part)
    seconds = time.perf_counter() - began
    words = [s.words for s in part]
    report = tagging_report([s.labels for s in part], predicted, words=words, known=known)
    assert report.seen is not None
    assert report.unseen is not None
    return {
        "accuracy": report.tokens.accuracy,
        "seen": report.seen.accuracy,
        "unseen": report.unseen.accuracy,
        "unseen_tokens": report.unseen.total,
        "tokens_per_second": round(report.tokens.total / seconds),
    }


def spread(sentences: Sequence[Sentence], share: float) -> list[Sentence]:
    """So many of the sentences, evenly spread: neighbours come from one text, and are alike."""
    count = max(1, round(share * len(sentences)))
    return [sentences[i * len(sentences) // count] for i in range(count)]
