"""A network of named variables drawn: boxes with probabilities, arrows and factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from mrflearn.errors import SettingsError
from mrflearn.plots.figure import COLOURS, INK, panels, save

MOST_BOXES = 60
MOST_STATES = 8  # of a variable that are listed
WIDE, HIGH = 2.2, 1.7  # inches from one box to the next
Places = dict[str, tuple[float, float]]


def draw_graphical_model(
    variables: Mapping[str, Sequence[tuple[str, float]]],
    factors: Sequence[tuple[Sequence[str], bool]],
    observed: set[str] | None = None,
    *,
    path: str | Path | None = None,
) -> Any:
    """Variables as boxes with the probabilities of their states, and the factors between them.

    Parameters
    ----------
    variables
        The (label, probability) pairs of each variable.
    factors
        The variables of each factor, and whether it is a conditional of the last one given the
        others: then arrows lead there, and boxes lie in layers.
    observed
        Variables drawn in grey.
    path
        Where to write the picture.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    """
    if not variables or len(variables) > MOST_BOXES:
        raise SettingsError(f"{len(variables)} variables cannot be drawn; 1 to {MOST_BOXES} can.")
    places = _layered(variables, factors)
    xs, ys = zip(*places.values(), strict=True)
    across, upward = max(xs) - min(xs) + 1, max(ys) - min(ys) + 1
    figure, (axis,) = panels(1, width=max(3.0, WIDE * across), height=max(1.8, HIGH * upward))
    for scope, directed in factors:
        if directed:
            for parent in scope[:-1]:
                _arrow(axis, places[parent], places[scope[-1]])
        elif len(scope) > 1:
            _square(axis, [places[name] for name in scope])
    for name, states in variables.items():
        _box(axis, places[name], name, states, grey=name in (observed or set()))
    axis.set(xlim=(min(xs) - 0.5, max(xs) + 0.5), ylim=(min(ys) - 0.5, max(ys) + 0.5))
    axis.axis("off")
    if path is not None:
        save(figure, path)
    return figure


def _layered(names: Mapping[str, Any], factors: Sequence[tuple[Sequence[str], bool]]) -> Places:
    """Children below all their parents, near the middle of them; on a circle without arrows."""
    parents: dict[str, set[str]] = {name: set() for name in names}
    for scope, directed in factors:
        if directed:
            parents[scope[-1]].update(scope[:-1])
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError:
        order = []
    if not order or not any(parents.values()):
        angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(1, len(names))
        radius = max(0.8, len(names) / 5)
        circle = zip(radius * np.cos(angle), radius * np.sin(angle), strict=True)
        return {name: (float(x), float(y)) for name, (x, y) in zip(names, circle, strict=True)}
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = max((depth[own] + 1 for own in parents[name]), default=0)
    layers: list[list[str]] = [[] for _ in range(1 + max(depth.values()))]
    for name in names:
        layers[depth[name]].append(name)
    places: Places = {}
    for row, layer in enumerate(layers):
        middle = {
            name: float(np.mean([places[own][0] for own in parents[name]] or [0.0]))
            for name in layer
        }
        for i, name in enumerate(sorted(layer, key=middle.__getitem__)):
            places[name] = (i - (len(layer) - 1) / 2, float(-row))
    return places


def _box(
    axis: Any,
    place: tuple[float, float],
    name: str,
    states: Sequence[tuple[str, float]],
    *,
    grey: bool,
) -> None:
    shown = [f"{label}  {value:.3f}" for label, value in states[:MOST_STATES]]
    more = [f"and {len(states) - MOST_STATES} more"] if len(states) > MOST_STATES else []
    look = {
        "boxstyle": "round,pad=0.5",
        "edgecolor": INK,
        "facecolor": "#dddddd" if grey else "white",
    }
    lines = "\n".join([name, *shown, *more])
    axis.text(*place, lines, ha="center", va="center", fontsize=8, bbox=look, zorder=3)


def _arrow(axis: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    line = {"arrowstyle": "-|>", "color": COLOURS[0], "shrinkA": 26, "shrinkB": 30, "lw": 1.2}
    axis.annotate("", end, start, arrowprops=line, zorder=1)


def _square(axis: Any, corners: Sequence[tuple[float, float]]) -> None:
    """A factor: a small square in the middle of its variables, joined to each."""
    x, y = np.mean(corners, axis=0)
    for corner in corners:
        axis.plot([x, corner[0]], [y, corner[1]], color=INK, lw=1, zorder=1)
    axis.scatter([x], [y], s=36, marker="s", color=INK, zorder=2)
