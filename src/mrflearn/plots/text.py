"""Models of text drawn: how training went, a map of word vectors, topics, perplexities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.curves import draw_curves
from mrflearn.plots.figure import COLOURS, INK, panels

if TYPE_CHECKING:
    from mrflearn.training.outcome import Row

LETTER = 7.0  # points
MAP_POINTS = 400.0  # about as wide as the map is drawn
SHIFTS = (2.0, -6.0, 9.0, -13.0, 5.0, -9.0, 12.0, -16.0, 16.0, -20.0)  # points, tried in turn


def bound_curve(history: Sequence[Row]) -> Any:
    """A figure of the bounds per position against evaluations: training and validation."""
    seen = [row for row in history if row.validation is not None]
    curves: dict[str, tuple[list[Any], list[Any]]] = {
        "training": ([row.evaluations for row in history], [-row.value for row in history])
    }
    if seen:
        curves["validation"] = [row.evaluations for row in seen], [row.validation for row in seen]
    return draw_curves(curves, across="evaluations", upward="bound, nats per position")


def em_curve(history: Sequence[Row]) -> Any:
    """A figure of the log-likelihood of the training text against steps of EM.

    A new line begins where weights of levels were estimated again: between lines it may fall.
    """
    rounds = np.cumsum([row.iteration == 0 for row in history])
    curves: dict[str, tuple[list[Any], list[Any]]] = {}
    for step, (row, number) in enumerate(zip(history, rounds, strict=True)):
        places, values = curves.setdefault(f"round {number}", ([], []))
        places.append(step)
        values.append(-row.value)
    return draw_curves(curves, across="steps of EM", upward="log-likelihood, nats", marker="o")


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

        def is_free(shift: float, left: float = x, end: float = right, at: float = y) -> bool:
            return not any(
                left < b and a < end and abs(at + shift - height) < LETTER for a, b, height in taken
            )

        shift = next((s for s in SHIFTS if is_free(s)), SHIFTS[0])
        taken.append((x, right, y + shift))
        found.append(shift)
    return found


def topic_bars(topics: Sequence[Sequence[tuple[str, float]]], shares: Sequence[float]) -> Any:
    """A figure with a panel for each topic: its characteristic words and their probabilities."""
    figure, axes = panels(len(topics), width=2.4, height=3.6)
    for number, (axis, words) in enumerate(zip(axes, topics, strict=True)):
        _bars(axis, words, COLOURS[number % len(COLOURS)])
        axis.set_title(f"topic {number}: {shares[number]:.2f}")
        axis.tick_params(labelsize=7)
    return figure


def perplexity_bars(figures: Sequence[tuple[str, float]], floor: float | None = None) -> Any:
    """A figure of the perplexity of several models, with the least possible one as a line."""
    figure, (axis,) = panels(1, width=6.0)
    axis.bar_label(_bars(axis, figures, COLOURS[0]), fmt=" %.1f", fontsize=8)
    if floor is not None:
        axis.axvline(floor, color=COLOURS[1], linestyle="--", label="true entropy")
        axis.legend(frameon=False)
    axis.set_xlabel("perplexity per token")
    return figure


def _bars(axis: Any, values: Sequence[tuple[str, float]], colour: str) -> Any:
    """A bar for each name, the first on top."""
    names, lengths = zip(*reversed(values), strict=True)
    return axis.barh(names, lengths, color=colour)
