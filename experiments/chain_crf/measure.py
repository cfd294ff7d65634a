"""What one point of the plan comes to: scores on test data, or how far probabilities hold."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from points import Point
from tasks import TASKS, Sentence, Task

from mrflearn.estimators.crf import CRF
from mrflearn.evaluation.calibration import Reliability, reliability
from mrflearn.evaluation.chunks import chunk_report
from mrflearn.evaluation.tagging import confusion, tagging_report
from mrflearn.io.spans import tags_to_spans

HELD_OUT = 10  # of every so many training sentences one is held out to fit the temperature on


def measured(data: Path, point: Point) -> dict[str, Any]:
    """What the point asks for."""
    work = calibration if point.kind == "calibration" else score
    return work(TASKS[point.task], _parts(point.task, data), point)


@lru_cache(maxsize=1)
def _parts(task: str, data: Path) -> dict[str, list[Sentence]]:
    return TASKS[task].parts(data)


def score(task: Task, parts: dict[str, list[Sentence]], point: Point) -> dict[str, Any]:
    """Accuracy, F1 and effort of a CRF with CRFsuite's penalty (c2 = 1)."""
    train, test = parts["train"][: point.sentences], parts["test"]
    crf, seconds = _fitted(task, train, point)
    began = time.perf_counter()
    predicted = crf.predict(task.features(sentence) for sentence in test)
    tagging = time.perf_counter() - began
    truth = [list(sentence.labels) for sentence in test]
    known = {word for sentence in train for word in sentence.words}
    report = tagging_report(truth, predicted, words=[s.words for s in test], known=known)
    figures: dict[str, Any] = {
        "train_sentences": len(train),
        "accuracy": report.tokens.accuracy,
        "unseen": report.unseen.accuracy if report.unseen else None,
        "objective": crf.outcome_.value,
        "iterations": crf.outcome_.iterations,
        "train_seconds": seconds,
        "tag_tokens_per_second": report.tokens.total / tagging,
        "worst": confusion(truth, predicted).worst(10),
    }
    if task.chunks:
        total = chunk_report(truth, predicted).total
        figures |= {"precision": total.precision, "recall": total.recall, "f1": total.f1}
    return figures


def calibration(task: Task, parts: dict[str, list[Sentence]], point: Point) -> dict[str, Any]:
    """Reliability on test data before and after a temperature fitted on held-out sentences."""
    train = parts["train"][: point.sentences]
    kept = [s for i, s in enumerate(train) if i % HELD_OUT]
    held_out = train[::HELD_OUT]
    crf, _ = _fitted(task, kept, point)
    figures: dict[str, Any] = {"before": _reliabilities(crf, task, parts["test"])}
    crf.calibrate(map(task.features, held_out), [list(s.labels) for s in held_out])
    figures["after"] = _reliabilities(crf, task, parts["test"])
    return figures | {"temperature": crf.temperature_}


def _fitted(task: Task, train: list[Sentence], point: Point) -> tuple[CRF, float]:
    crf = CRF(c2=1.0, max_iterations=point.iterations, n_jobs=-1)
    began = time.perf_counter()
    crf.fit(map(task.features, train), [list(sentence.labels) for sentence in train])
    return crf, time.perf_counter() - began


def _reliabilities(crf: CRF, task: Task, test: list[Sentence]) -> dict[str, Any]:
    items = [task.features(sentence) for sentence in test]
    marginals = crf.predict_marginals(items)
    best = [max(token.items(), key=lambda pair: pair[1]) for own in marginals for token in own]
    truth = [label for sentence in test for label in sentence.labels]
    right = [label == gold for (label, _), gold in zip(best, truth, strict=True)]
    tables = {"tokens": reliability([chance for _, chance in best], right)}
    if task.chunks:
        found = crf.predict_spans(items)
        gold_spans = [set(tags_to_spans(sentence.labels)) for sentence in test]
        pairs = [
            (s, s[:3] in gold) for own, gold in zip(found, gold_spans, strict=True) for s in own
        ]
        tables["chunks"] = reliability([s.probability for s, _ in pairs], [ok for _, ok in pairs])
    return {name: plain(table) for name, table in tables.items()}


def plain(table: Reliability) -> dict[str, Any]:
    """The table as JSON holds it; empty bins are null."""
    columns = {name: getattr(table, name) for name in ("edges", "counts", "confidence", "accuracy")}
    lists = {
        name: [None if np.isnan(value) else float(value) for value in column]
        for name, column in columns.items()
    }
    return {**lists, "expected_error": table.expected_error}


def from_plain(row: dict[str, Any]) -> Reliability:
    """The table again."""
    names = ("edges", "counts", "confidence", "accuracy")
    return Reliability(*(np.array(row[name], dtype=np.float64) for name in names))
