"""What pages say of fields: their couplings."""

from __future__ import annotations

from typing import Any

from mrflearn.plots.couplings import draw_graph, draw_heat_map
from mrflearn.plots.page import Page
from mrflearn.plots.training_page import add_training

TOP = 15
MOST_VARIABLES = 400  # of a heat map


def add_field(page: Page, model: Any) -> None:
    """The curve and the couplings of a field."""
    add_training(page, model.outcome_.history, "objective, nats, up to a constant")
    names = model.variable_names_
    edges, strength = model.edges_, model.strengths_
    signed = bool(model.signed_.all())
    what = "coupling" if signed else "norm of the couplings"
    if not len(edges):
        return
    order = model.strongest(TOP)
    page.heading("Couplings")
    if len(names) <= MOST_VARIABLES:
        page.picture(
            draw_heat_map(model.strength_matrix_, names, what),
            "How strongly each pair of variables is coupled.",
        )
        page.picture(
            draw_graph(edges[order], strength[order], names, what, signed=signed),
            f"The {len(order)} strongest couplings as a graph.",
        )
    rows = [(names[edges[k][0]], names[edges[k][1]], float(strength[k])) for k in order]
    page.table(("", "", what), rows)
