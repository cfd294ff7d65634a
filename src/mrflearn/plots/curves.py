"""Curves with levels to compare them to, and how training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from mrflearn.plots.figure import COLOURS, INK, panels

if TYPE_CHECKING:
    from mrflearn.training.outcome import Row


def draw_curves(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    across: str,
    upward: str,
    levels: Mapping[str, float] | None = None,
    marker: str = "",
) -> Any:
    """One panel with a line for each curve (its x and y), and a dashed one for each level."""
    figure, (axis,) = panels(1, width=6.0, height=4.0)
    for (name, (x, y)), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axis.plot(x, y, color=colour, lw=1.6, marker=marker, label=name)
    for (name, level), style in zip((levels or {}).items(), cycle(("--", ":", "-.")), strict=False):
        axis.axhline(level, color=INK, lw=1.0, ls=style, label=name)
    axis.set(xlabel=across, ylabel=upward)
    axis.legend(frameon=False)
    return figure


def bound_curve(history: Sequence[Row]) -> Any:
    """Bounds per position against evaluations: of training, less the penalty, and validation."""
    seen = [row for row in history if row.validation is not None]
    curves: dict[str, tuple[list[Any], list[Any]]] = {
        "training less penalty": ([r.evaluations for r in history], [-r.value for r in history])
    }
    if seen:
        curves["validation"] = [row.evaluations for row in seen], [row.validation for row in seen]
    return draw_curves(curves, across="evaluations", upward="bound, nats per position")


def em_curve(history: Sequence[Row]) -> Any:
    """A figure of the log-likelihood of the training text against steps of EM.

    A new line begins where weights of levels were estimated again: between lines it may fall.
    """
    rounds = np.cumsum([row.iteration == 1 for row in history])
    curves: dict[str, tuple[list[Any], list[Any]]] = {}
    for step, (row, number) in enumerate(zip(history, rounds, strict=True)):
        places, values = curves.setdefault(f"round {number}", ([], []))
        places.append(step)
        values.append(-row.value)
    return draw_curves(curves, across="steps of EM", upward="log-likelihood, nats", marker="o")
