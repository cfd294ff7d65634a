"""Fields and couplings drawn where they stand on a lattice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.figure import COLOURS, INK, panels

Array = NDArray[np.float64]


def draw_lattices(
    fields: Mapping[str, tuple[Array, Array]], edges: NDArray[np.int64], columns: int
) -> Any:
    """One panel a field: (spin fields, spin couplings) as coloured nodes and edges of a grid."""
    from matplotlib.collections import LineCollection

    figure, axes = panels(len(fields), width=3.3, height=3.6)
    limit = max(np.abs(np.concatenate([np.concatenate(pair) for pair in fields.values()])).max(), 1)
    look: dict[str, Any] = {"cmap": "RdBu_r", "clim": (-limit, limit)}
    variables = len(next(iter(fields.values()))[0])
    places = np.stack([np.arange(variables) % columns, -(np.arange(variables) // columns)], axis=1)
    for axis, (title, (own, couplings)) in zip(axes, fields.items(), strict=True):
        axis.add_collection(LineCollection(list(places[edges]), array=couplings, lw=6, **look))
        dots = axis.scatter(*places.T, c=own, s=220, edgecolors=INK, linewidths=0.8, zorder=2)
        dots.set(**look)
        axis.set(title=title, aspect="equal")
        axis.margins(0.12)
        axis.axis("off")
    bar = figure.colorbar(dots, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.04)
    bar.set_label("field (node) and coupling (edge): blue pushes down or apart, red up or together")
    return figure


def draw_recovery(truth: Array, estimates: Mapping[str, Array]) -> Any:
    """Estimates against true parameters; a perfect estimator lies on the diagonal."""
    figure, axes = panels(1, width=4.6, height=4.4)
    axis = axes[0]
    reach = float(np.abs(truth).max()) * 1.15
    axis.plot([-reach, reach], [-reach, reach], color=INK, lw=0.8, zorder=1)
    for (name, values), colour, marker in zip(estimates.items(), COLOURS, "o^sDv", strict=False):
        axis.scatter(truth, values, s=26, color=colour, marker=marker, alpha=0.75, label=name)
    axis.set(xlabel="true parameter", ylabel="learned parameter", aspect="equal")
    axis.legend(frameon=False)
    return figure
