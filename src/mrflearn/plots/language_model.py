"""Pictures of a language model: how its bound rose, and a map of its word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.figure import COLOURS, INK, panels
from mrflearn.training.outcome import Row


def bound_curve(history: Sequence[Row]) -> Any:
    """A figure of the bounds per position against evaluations: training and validation."""
    figure, (axes,) = panels(1, width=5.0)
    evaluations = [row.evaluations for row in history]
    axes.plot(evaluations, [-row.value for row in history], color=COLOURS[0], label="training")
    seen = [row for row in history if row.validation is not None]
    if seen:
        scores = [row.validation for row in seen]
        axes.plot([row.evaluations for row in seen], scores, color=COLOURS[1], label="validation")
    axes.set_xlabel("evaluations")
    axes.set_ylabel("bound, nats per position")
    axes.legend(frameon=False)
    return figure


def vector_map(words: Sequence[str], vectors: NDArray[np.float32]) -> Any:
    """A figure of words at the two leading principal components of their vectors."""
    figure, (axes,) = panels(1, width=6.0, height=6.0)
    centred = vectors - vectors.mean(0)
    sizes = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.maximum(sizes, np.finfo(np.float32).tiny)
    places = unit @ np.linalg.svd(unit, full_matrices=False)[2][:2].T
    axes.scatter(places[:, 0], places[:, 1], s=4, color=COLOURS[0])
    for word, (x, y) in zip(words, places, strict=True):
        axes.annotate(word, (x, y), fontsize=7, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    return figure
