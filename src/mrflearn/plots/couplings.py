"""Couplings of a field: as a matrix of colours, and as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.figure import INK, panels

Array = NDArray[np.float64]
MOST_NAMES = 40  # more would overlap


def draw_heat_map(
    matrix: Array, names: Sequence[str] | None = None, label: str = "coupling"
) -> Any:
    """A square matrix of pair strengths; red and blue around zero where some are negative."""
    figure, axes = panels(1, width=5.6, height=4.8)
    axis = axes[0]
    signed = bool(matrix.size) and float(matrix.min()) < 0
    limit = float(np.abs(matrix).max()) or 1.0
    look = {"cmap": "RdBu_r", "vmin": -limit} if signed else {"cmap": "Blues", "vmin": 0.0}
    image = axis.imshow(matrix, vmax=limit, interpolation="nearest", **look)
    figure.colorbar(image, ax=axis, label=label, shrink=0.85)
    if names is not None and len(names) <= MOST_NAMES:
        axis.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
    return figure


def draw_graph(
    edges: NDArray[np.int64], strengths: Array, names: Sequence[str], label: str = "coupling"
) -> Any:
    """Variables on a circle and their edges, the stronger the thicker and the darker."""
    from matplotlib.collections import LineCollection

    figure, axes = panels(1, width=5.4, height=5.2)
    axis = axes[0]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(len(names), 1)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    size = np.abs(strengths)
    limit = float(size.max()) if size.size else 1.0
    order = np.argsort(size, kind="stable")  # the strongest are drawn last, on top
    lines = LineCollection(
        list(places[edges[order]]), lw=0.3 + 4 * size[order] / (limit or 1.0), cmap="RdBu_r"
    )
    lines.set(array=strengths[order], clim=(-limit, limit))
    axis.add_collection(lines)
    axis.scatter(*places.T, s=60, color="white", edgecolors=INK, zorder=2)
    for place, name in zip(places, names, strict=True):
        if len(names) <= MOST_NAMES:
            side = "left" if place[0] >= 0 else "right"
            axis.text(*(1.07 * place), name, ha=side, va="center", fontsize=8)
    figure.colorbar(lines, ax=axis, label=label, shrink=0.6)
    axis.set(aspect="equal")
    axis.margins(0.25)
    axis.axis("off")
    return figure
