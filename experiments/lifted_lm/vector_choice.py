"""How the settings of `WordVectors` were chosen, on word pairs that are not reported.

Pairs are counted up to some distance and weighed alike or by 1 / distance; vectors are U S^p for a
power p of the singular values.  `WordVectors` has 8, 1 / distance and p = 1/2.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from likeness import agreement, for_choice
from rows import Rows
from sklearn.utils.extmath import randomized_svd
from texts import Split

from mrflearn.evaluation.similarity import CosineSpace
from mrflearn.features.log_ratios import (
    harmonic_weights,
    mixed_frequencies,
    positive_log_ratios,
)
from mrflearn.features.moments import moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus

PART = "choice of vectors"
DISTANCES = (2, 4, 8, 16)
DIMS = (30, 100)
POWERS = (0.0, 0.5, 1.0)
WEIGHTS = {"alike": lambda k: (1 / k,) * k, "1 / distance": harmonic_weights}


def run(rows: Rows, text: Split) -> None:
    """Nothing is measured where there are no sets of word pairs."""
    if text.likeness is None:
        return
    for distance, (weights, dims) in product(DISTANCES, product(WEIGHTS, DIMS)):
        point = {"part": PART, "text": text.name, "distance": distance, "weights": weights}
        rows.measure(
            point | {"dims": dims}, lambda k=distance, w=weights, d=dims: _judge(text, k, w, d)
        )


def report(rows: Rows) -> list[str]:
    found = rows.of(PART)
    if not found:
        return []
    sets = list(next(iter(found[0]["figures"].values())))
    header = ["distance", "weights", "D", "p", *sets, "mean"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in found:
        point = row["point"]
        for power, figures in row["figures"].items():
            values = [figures[name][0] for name in sets]
            cells = [str(point["distance"]), point["weights"], str(point["dims"]), power]
            cells += [f"{value:.3f}" for value in [*values, np.mean(values)]]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _judge(text: Split, distance: int, weights: str, dims: int) -> dict[str, Any]:
    assert text.likeness is not None
    vocabulary = Vocabulary.from_counts(count_corpus(text.train))
    moments = moments_of(text.train, distance, vocabulary)
    ratios = positive_log_ratios(mixed_frequencies(moments, WEIGHTS[weights](distance)))
    left, size, _ = randomized_svd(ratios, dims, random_state=0)
    sets = for_choice(text.likeness)
    return {
        str(power): agreement(CosineSpace(vocabulary.words, left * size**power), sets)
        for power in POWERS
    }
