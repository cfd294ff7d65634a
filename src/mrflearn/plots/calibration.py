"""Reliability drawn: how right answers are against how sure they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrflearn.evaluation.calibration import Reliability
from mrflearn.plots.figure import COLOURS, INK, panels


def draw_reliability(tables: Mapping[str, Reliability]) -> Any:
    """One panel a table: accuracy by confidence over the diagonal, answers counted below it.

    The gap between a bar and the diagonal is what the calibration error averages.
    """
    figure, axes = panels(len(tables), width=3.8, height=3.9)
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        _draw(axis, table)
        error = f"calibration error {100 * table.expected_error:.2f} %"
        axis.set(title=f"{title}\n{error}", xlabel="confidence", xlim=(0, 1), ylim=(0, 1))
    axes[0].set_ylabel("share that is right")
    return figure


def _draw(axis: Any, table: Reliability) -> None:
    full = table.counts > 0
    left, width = table.edges[:-1][full], np.diff(table.edges)[full]
    look = {"align": "edge", "edgecolor": "white", "linewidth": 0.6}
    axis.bar(left, table.accuracy[full], width, color=COLOURS[0], label="right", **look)
    share = table.counts / max(table.counts.sum(), 1)
    third = width / 3
    axis.bar(left, share[full], third, color=COLOURS[1], label="of all answers", **look)
    axis.plot([0, 1], [0, 1], color=INK, lw=1, ls="--")
    axis.plot(table.confidence[full], table.accuracy[full], "o", ms=4, color=INK)
    axis.legend(frameon=False, loc="upper left", fontsize=8)
