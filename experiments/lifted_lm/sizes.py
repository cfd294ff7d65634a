"""Training time against the size of the corpus: the same text once, four and sixteen times over.

Trainings of the same number of evaluations in turn, several times; medians are compared.
"""

from __future__ import annotations

import time
from functools import reduce
from operator import add
from statistics import median
from typing import Any

from lifted import CONTEXT
from rows import Rows
from texts import Sentences, larger

from mrflearn.estimators.lifted_training import LiftedSettings, train_lifted
from mrflearn.features.moments import moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus

PART = "sizes"
TIMES = (1, 4, 16)
REPEATS = {"smoke": 1, "full": 5}
VOCABULARIES: dict[str, tuple[int | None, ...]] = {"smoke": (50,), "full": (10_000, None)}
EVALUATIONS = {"cpu": 8, "cuda": 20}


def run(rows: Rows, scale: str, data: Any, device: str) -> None:
    for size in VOCABULARIES[scale]:
        if size is None and device == "cpu":
            continue
        point = {"part": PART, "scale": scale, "vocabulary": size, "device": device,
                 "evaluations": EVALUATIONS[device]}  # fmt: skip
        text = larger(scale, data).train
        rows.measure(point, lambda s=size, own=text: _measure(own, s, device, REPEATS[scale]))


def report(rows: Rows) -> list[str]:
    found = rows.of(PART)
    if not found:
        return []
    header = ["vocabulary", "device", "evaluations", *(f"text x {times}" for times in TIMES)]
    lines = ["| " + " | ".join([*header, "largest over smallest"]) + " |"]
    lines.append("|---" * (len(header) + 1) + "|")
    for row in found:
        figures = row["figures"]
        seconds = list(figures["seconds"].values())
        cells = [f"{figures['vocabulary']:,}", row["point"]["device"]]
        cells += [str(row["point"]["evaluations"]), *(f"{found:.3f} s" for found in seconds)]
        cells.append(f"{max(seconds) / min(seconds):.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _measure(sentences: Sentences, size: int | None, device: str, repeats: int) -> dict[str, Any]:
    vocabulary = Vocabulary.from_counts(count_corpus(sentences), size=size)
    once = moments_of(sentences, CONTEXT, vocabulary)
    corpora = {times: reduce(add, [once] * times) for times in TIMES}
    limit = EVALUATIONS[device]
    settings = LiftedSettings(max_iterations=limit, max_evaluations=limit, device=device)
    seconds: dict[int, list[float]] = {times: [] for times in TIMES}
    train_lifted(once, settings)  # kernels are compiled, caches are warm
    for _ in range(repeats):
        for times, moments in corpora.items():
            began = time.perf_counter()
            train_lifted(moments, settings)
            seconds[times].append(time.perf_counter() - began)
    return {
        "vocabulary": len(vocabulary),
        "seconds": {str(times): median(found) for times, found in seconds.items()},
        "all": {str(times): found for times, found in seconds.items()},
    }
