"""Curves against one axis, with levels to compare them to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, TypeAlias

from mrflearn.plots.figure import COLOURS, INK, panels

Curve: TypeAlias = tuple[Sequence[float], Sequence[float]]


def draw_curves(
    curves: Mapping[str, Curve],
    *,
    across: str,
    upward: str,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> Any:
    """One panel with a line for each curve (its x and y), and a dashed one for each level."""
    figure, axes = panels(1, width=6.0, height=4.0)
    axis = axes[0]
    for (name, (x, y)), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axis.plot(x, y, color=colour, lw=1.6, label=name)
    for (name, level), style in zip((levels or {}).items(), cycle(("--", ":", "-.")), strict=False):
        axis.axhline(level, color=INK, lw=1.0, ls=style, label=name)
    axis.set(xlabel=across, ylabel=upward)
    if logarithmic:
        axis.set_xscale("log")
    axis.legend(frameon=False)
    return figure
