"""Panels of curves side by side, with error bars, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrflearn.plots.figure import COLOURS, panels

MARKERS = "os^Dv*"


@dataclass(frozen=True)
class Curve:
    """Heights above places, each with the half-length of its error bar (none: no bars)."""

    places: Sequence[float]
    heights: Sequence[float]
    spreads: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """The curves of one panel by name, and what the axes show."""

    title: str
    across: str
    up: str
    curves: Mapping[str, Curve]


def draw_panels(parts: Sequence[Panel], *, log_heights: bool = True) -> Any:
    """One panel each; a name has the same colour in all of them."""
    figure, axes = panels(len(parts), width=4.2, height=3.6)
    names = list(dict.fromkeys(name for part in parts for name in part.curves))
    for axis, part in zip(axes, parts, strict=True):
        for name, curve in part.curves.items():
            look = names.index(name)
            style = {
                "color": COLOURS[look % len(COLOURS)],
                "marker": MARKERS[look % len(MARKERS)],
                "linestyle": "-" if look < len(COLOURS) else "--",
            }
            size = {"markersize": 4, "linewidth": 1.2, "capsize": 2}
            axis.errorbar(curve.places, curve.heights, curve.spreads, label=name, **style, **size)
        axis.set(title=part.title, xlabel=part.across, ylabel=part.up, xscale="log")
        if log_heights:
            axis.set_yscale("log")
        for line in (axis.xaxis, *((axis.yaxis,) if log_heights else ())):
            _name_few_ticks(line)
        axis.legend(frameon=False, fontsize=8)
    return figure


def _name_few_ticks(line: Any) -> None:
    """Names 2 and 5 between powers of ten on a short axis, and nothing between on a long one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = line.get_view_interval()
    if high < 30 * low:
        line.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        line.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        line.set_minor_formatter(NullFormatter())
