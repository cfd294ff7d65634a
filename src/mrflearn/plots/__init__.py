"""Figures and self-contained pages; the only user of matplotlib."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.plots.curves import bound_curve as bound_curve
    from mrflearn.plots.curves import draw_curves as draw_curves
    from mrflearn.plots.curves import em_curve as em_curve
    from mrflearn.plots.fields import draw_contact_map as draw_contact_map
    from mrflearn.plots.fields import draw_graph as draw_graph
    from mrflearn.plots.fields import draw_heat_map as draw_heat_map
    from mrflearn.plots.fields import draw_lattices as draw_lattices
    from mrflearn.plots.fields import draw_moments as draw_moments
    from mrflearn.plots.fields import draw_mutant_scan as draw_mutant_scan
    from mrflearn.plots.fields import draw_recovery as draw_recovery
    from mrflearn.plots.graphical_models import draw_graphical_model as draw_graphical_model
    from mrflearn.plots.labels import draw_confusion as draw_confusion
    from mrflearn.plots.labels import draw_reliability as draw_reliability
    from mrflearn.plots.networks import draw_centrality as draw_centrality
    from mrflearn.plots.networks import draw_intervals as draw_intervals
    from mrflearn.plots.networks import draw_network as draw_network
    from mrflearn.plots.networks import draw_stability as draw_stability
    from mrflearn.plots.page import Page as Page
    from mrflearn.plots.text import vector_map as vector_map

__getattr__, __dir__ = lazy(__name__)
