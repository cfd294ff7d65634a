"""Figures and self-contained pages; the only user of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.plots.calibration import draw_reliability
    from mrflearn.plots.composite import em_curve, perplexity_bars, topic_bars
    from mrflearn.plots.confusion import draw_confusion
    from mrflearn.plots.couplings import draw_graph, draw_heat_map
    from mrflearn.plots.curves import Curve, Panel, draw_curves, draw_panels
    from mrflearn.plots.language_model import bound_curve, vector_map
    from mrflearn.plots.lattice import draw_lattices, draw_recovery
    from mrflearn.plots.moments import draw_moments
    from mrflearn.plots.page import Page

__all__ = [
    "Curve",
    "Page",
    "Panel",
    "bound_curve",
    "draw_confusion",
    "draw_curves",
    "draw_graph",
    "draw_heat_map",
    "draw_lattices",
    "draw_moments",
    "draw_panels",
    "draw_recovery",
    "draw_reliability",
    "em_curve",
    "perplexity_bars",
    "topic_bars",
    "vector_map",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Curve": ".curves",
        "Page": ".page",
        "Panel": ".curves",
        "bound_curve": ".language_model",
        "draw_confusion": ".confusion",
        "draw_curves": ".curves",
        "draw_graph": ".couplings",
        "draw_heat_map": ".couplings",
        "draw_lattices": ".lattice",
        "draw_moments": ".moments",
        "draw_panels": ".curves",
        "draw_recovery": ".lattice",
        "draw_reliability": ".calibration",
        "em_curve": ".composite",
        "perplexity_bars": ".composite",
        "topic_bars": ".composite",
        "vector_map": ".language_model",
    },
)
