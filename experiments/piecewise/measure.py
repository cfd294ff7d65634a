"""What one point of the plan comes to: a model is trained, and held against the truth."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from rows import Point
from tasks import TASKS, Example, Parts, Task

from mrflearn.estimators.crf import CRF
from mrflearn.estimators.layered_crf import FactorialCRF, SkipChainCRF
from mrflearn.evaluation.chunks import ChunkReport, paired
from mrflearn.evaluation.layers import layers_report
from mrflearn.io.spans import split_tag


def measured(data: Path, point: Point, tests: int | None = None) -> dict[str, Any]:
    """What the point asks for, on so many of the test sequences (None: all)."""
    parts = _parts(point.task, data, point.draw, point.size)
    jobs = torch.get_num_threads()
    return measure(TASKS[point.task], parts._replace(test=parts.test[:tests]), point, jobs)


@lru_cache(maxsize=1)
def _parts(task: str, data: Path, draw: int, size: int | None) -> Parts:
    return TASKS[task].parts(data, draw, size)


def measure(task: Task, parts: Parts, point: Point, jobs: int) -> dict[str, Any]:
    """Scores on the test set, and what training took."""
    if point.held_out:
        parts = split(parts.train)
    began, cpu = time.perf_counter(), time.process_time()
    model = fitted(task, parts.train, point, jobs)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.perf_counter()
    found = predicted(task, model, parts.test)
    outcome = model.outcome_
    return _scores(task, parts.test, found) | {
        "train_sentences": len(parts.train),
        "test_sentences": len(parts.test),
        "weights": sum(part.numel() for part in model.model_.parameters().values()),
        "objective": outcome.value,
        "iterations": outcome.iterations,
        "converged": outcome.converged,
        "train_seconds": seconds,
        "train_cpu_seconds": cpu,
        "optimiser_seconds": outcome.seconds,
        "peak_mb": peak,  # of the process so far
        "test_seconds": time.perf_counter() - began,
        "jobs": jobs,
    }


def split(train: list[Example]) -> Parts:
    """The last fifth of the training sentences to test on: where settings are chosen."""
    size = len(train) * 4 // 5
    return Parts(train[:size], train[size:])


def fitted(task: Task, train: list[Example], point: Point, jobs: int) -> Any:
    """The model of the task's structure, trained as the point says.

    A chain is a factorial chain of one layer, so that features stand on edges as in the paper; one
    "of nodes" has them on single tokens, and only constants on its edges.
    """
    settings: dict[str, Any] = {
        "estimator": point.estimator,
        "c2": point.c2,
        "max_iterations": point.iterations,
        "n_jobs": jobs,
    }
    items = [example.items for example in train]
    if task.structure == "skip":
        crf = SkipChainCRF(**settings, start=point.start)
        labels = [example.layers[0] for example in train]
        return crf.fit(items, labels, words=[example.words for example in train])
    if task.structure == "chain of nodes":
        return CRF(**settings).fit(items, [example.layers[0] for example in train])
    return FactorialCRF(**settings).fit(items, [example.layers for example in train])


def predicted(task: Task, model: Any, test: list[Example]) -> list[list[list[str]]]:
    """The labels of each layer of each test sequence."""
    items = [example.items for example in test]
    if task.structure == "skip":
        return [[own] for own in model.predict(items, words=[example.words for example in test])]
    if task.structure == "chain of nodes":
        return [[own] for own in model.predict(items)]
    return model.predict(items)


def _scores(task: Task, test: list[Example], found: list[list[list[str]]]) -> dict[str, Any]:
    truth = {
        name: [list(example.layers[k]) for example in test] for k, name in enumerate(task.layers)
    }
    guess = {name: [list(own[k]) for own in found] for k, name in enumerate(task.layers)}
    report = layers_report(truth, guess)
    figures: dict[str, Any] = {"joint_accuracy": report.joint.accuracy}
    for name, own in report.layers.items():
        figures[f"{name}_accuracy"] = own.tagging.tokens.accuracy
        if own.chunks is not None:
            figures[f"{name}_f1"] = own.chunks.total.f1
    if task.structure == "skip":
        tokens = token_report(truth["field"], guess["field"])
        figures["token_f1"] = {name: score.f1 for name, score in tokens.by_label.items()}
    return figures


def token_report(truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> ChunkReport:
    """Precision, recall and F1 of single tokens by label, as fields of a form are often scored.

    A token counts for the label of its chunk tag (`B-` and `I-` alike); O counts for nothing.
    """
    correct, guessed, actual = Counter[str](), Counter[str](), Counter[str]()
    for pair in paired(truth, predicted):
        for true, guess in zip(*pair, strict=True):
            (letter, label), (guessed_letter, guessed_label) = split_tag(true), split_tag(guess)
            actual[label] += letter != "O"
            guessed[guessed_label] += guessed_letter != "O"
            correct[label] += letter != "O" != guessed_letter and label == guessed_label
    return ChunkReport.of(correct, +guessed, +actual)  # labels that occur
