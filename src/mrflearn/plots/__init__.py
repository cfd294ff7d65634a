"""Figures and self-contained pages; the only user of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.plots.curves import bound_curve, draw_curves, em_curve
    from mrflearn.plots.fields import (
        draw_graph,
        draw_heat_map,
        draw_lattices,
        draw_moments,
        draw_recovery,
    )
    from mrflearn.plots.labels import draw_confusion, draw_reliability
    from mrflearn.plots.page import Page
    from mrflearn.plots.text import vector_map

__all__ = [
    "Page",
    "bound_curve",
    "draw_confusion",
    "draw_curves",
    "draw_graph",
    "draw_heat_map",
    "draw_lattices",
    "draw_moments",
    "draw_recovery",
    "draw_reliability",
    "em_curve",
    "vector_map",
]

__getattr__, __dir__ = lazy(__name__)
