"""How strong the penalty of each estimator should be: tried on a fifth of the training sentences.

The paper has one prior for all estimators, tuned for maximum likelihood in earlier work.  Here each
has the strength that labels the last fifth of the first draw's training sentences best, where it
learns from the others; test sentences have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rows import Point, Rows
from tasks import TASKS

STRENGTHS = (0.005, 0.015, 0.05, 0.15, 0.5, 1.5)  # c2; the paper's prior is 0.05
TUNED, SCORE = ("tags", "tags-words"), "tag_accuracy"
ESTIMATORS = ("ml", "pwpl", "pl", "pw")  # in the order they run in: one process, one after another


def trials(task: str) -> Iterator[Point]:
    """Every estimator at every strength, on held-out training sentences of the first draw."""
    for c2 in STRENGTHS:
        for estimator in ESTIMATORS:
            yield Point(task, estimator, size=TASKS[task].size, c2=c2, held_out=True)


def tried(rows: Rows, task: str, estimator: str) -> dict[float, float]:
    """The held-out score at each strength that was tried."""
    return {
        row["point"]["c2"]: row[SCORE]
        for row in rows
        if row["point"].get("held_out")
        and (row["point"]["task"], row["point"]["estimator"]) == (task, estimator)
    }


def chosen(rows: Rows, task: str) -> dict[str, float]:
    """The strength that did best, of each estimator that was tried at all of them."""
    scores = {estimator: tried(rows, task, estimator) for estimator in ESTIMATORS}
    return {
        estimator: max(own, key=lambda c2: own[c2])
        for estimator, own in scores.items()
        if own.keys() >= set(STRENGTHS)
    }


def finals(rows: Rows, task: str) -> Iterator[Point]:
    """Each estimator at its own strength, on all training sentences of each draw, to the tests."""
    strengths = chosen(rows, task)
    for draw in range(TASKS[task].draws):
        for estimator, c2 in strengths.items():
            yield Point(task, estimator, draw, TASKS[task].size, c2=c2)
