"""Word vectors drawn as a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.figure import COLOURS, INK, panels

LETTER = 7.0  # points
MAP_POINTS = 400.0  # about as wide as the map is drawn
SHIFTS = (2.0, -6.0, 9.0, -13.0, 5.0, -9.0, 12.0, -16.0, 16.0, -20.0)  # points, tried in turn


def vector_map(words: Sequence[str], vectors: NDArray[np.float32]) -> Any:
    """A figure of words at the two leading principal components of their vectors."""
    figure, (axes,) = panels(1, width=6.0, height=6.0)
    centred = vectors - vectors.mean(0)
    sizes = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.maximum(sizes, np.finfo(np.float32).tiny)
    places = unit @ np.linalg.svd(unit, full_matrices=False)[2][:2].T
    axes.scatter(places[:, 0], places[:, 1], s=4, color=COLOURS[0])
    extent = np.maximum(np.ptp(places, axis=0), np.finfo(np.float32).tiny)
    points = (places - places.min(0)) / extent * MAP_POINTS
    for word, place, shift in zip(words, places, _shifts(words, points), strict=True):
        axes.annotate(
            word, place, (2, shift), textcoords="offset points", fontsize=LETTER, color=INK
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)  # places mean something beside each other only
    return figure


def _shifts(words: Sequence[str], points: NDArray[np.float32]) -> list[float]:
    """How far up or down each label moves, in points, so as to cover no label before it."""
    taken: list[tuple[float, float, float]] = []  # left and right end, height
    found = []
    for word, (x, y) in zip(words, points.tolist(), strict=True):
        right = x + 0.6 * LETTER * len(word)
        beside = [height for a, b, height in taken if x < b and a < right]
        free = (s for s in SHIFTS if all(abs(y + s - height) >= LETTER for height in beside))
        shift = next(free, SHIFTS[0])
        taken.append((x, right, y + shift))
        found.append(shift)
    return found
