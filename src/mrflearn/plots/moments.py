"""Frequencies of a field against those of data; a field that fits lies on the diagonal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.plots.figure import COLOURS, INK, panels

Array = NDArray[np.float64]


def draw_moments(matches: Mapping[str, tuple[Array, Array]]) -> Any:
    """One panel a kind of frequency: (in the data, in the field)."""
    figure, axes = panels(len(matches), width=4.2, height=4.0)
    for axis, (title, (data, field)), colour in zip(axes, matches.items(), COLOURS, strict=False):
        axis.plot([0, 1], [0, 1], color=INK, lw=0.8, zorder=1)
        axis.scatter(data, field, s=10, color=colour, alpha=0.5, rasterized=len(data) > 5000)
        axis.set(title=title, xlabel="in the data", ylabel="in the field", aspect="equal")
    return figure
