"""How strong the penalty of each estimator should be: tried on a fifth of the training sentences.

The paper has one prior for all estimators, tuned for maximum likelihood in earlier work.
"""

from __future__ import annotations

from collections.abc import Iterator

from rows import Point, Rows

STRENGTHS = (0.05, 0.015, 0.15, 0.5)  # c2; the paper's prior is the first
ESTIMATORS = ("pwpl", "pl", "pw", "ml")
SCORE = "name_f1"


def trials(task: str) -> Iterator[Point]:
    """Every estimator at every strength, on held-out training sentences."""
    for c2 in STRENGTHS:
        for estimator in ESTIMATORS:
            yield Point(task, estimator, c2=c2, held_out=True)


def tried(rows: Rows, task: str, estimator: str) -> dict[float, float]:
    """The held-out score at each strength that was tried."""
    return {
        row["point"]["c2"]: row[SCORE]
        for row in rows
        if row["point"].get("held_out")
        and (row["point"]["task"], row["point"]["estimator"]) == (task, estimator)
    }


def chosen(rows: Rows, task: str) -> dict[str, float]:
    """The strength that did best, of each estimator that was tried at several."""
    scores = {estimator: tried(rows, task, estimator) for estimator in ESTIMATORS}
    return {
        estimator: max(own, key=lambda c2: own[c2])
        for estimator, own in scores.items()
        if len(own) > 1
    }


def finals(rows: Rows, task: str) -> Iterator[Point]:
    """Each estimator at its own strength, on all training sentences, to the test set."""
    for estimator, c2 in chosen(rows, task).items():
        yield Point(task, estimator, c2=c2)
