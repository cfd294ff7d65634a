"""Made-up tagging data of any size, the same in every process.  Needs numpy alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

VOCABULARY = 20_000  # names each of the features has


def synthetic_sentences(
    sentences: int, tokens: int, features: int, labels: int, seed: int = 0
) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Items and labels: labels follow a sticky chain, most features depend on the label."""
    draw = np.random.default_rng(seed)
    names = [[f"{f}={v}" for v in range(VOCABULARY)] for f in range(features)]
    called = [f"L{label}" for label in range(labels)]
    for _ in range(sentences):
        label = _chain(draw, tokens, labels)
        rank = (draw.zipf(1.3, size=(tokens, features)) - 1) % (VOCABULARY // labels)
        told = draw.random((tokens, features)) < 0.6
        owner = np.where(told, label[:, None], draw.integers(labels, size=(tokens, features)))
        value = (rank * labels + owner).tolist()
        items = [[names[f][v] for f, v in enumerate(row)] for row in value]
        yield items, [called[a] for a in label.tolist()]


def _chain(draw: np.random.Generator, tokens: int, labels: int) -> np.ndarray:
    """Labels that stay with probability 0.7 and else begin anew."""
    fresh = draw.integers(labels, size=tokens)
    begins = draw.random(tokens) < 0.3
    begins[0] = True
    return fresh[np.maximum.accumulate(np.where(begins, np.arange(tokens), 0))]
