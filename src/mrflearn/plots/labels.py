"""How right labels are, drawn: a table of mistakes, and accuracy against confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mrflearn.plots.figure import COLOURS, INK, SEQUENTIAL, panels

if TYPE_CHECKING:
    from mrflearn.evaluation.calibration import Reliability
    from mrflearn.evaluation.tagging import Confusion

CELL = 0.32  # inches


def draw_confusion(table: Confusion, *, most: int = 30) -> Any:
    """The share of each true label's tokens that were given each label.

    With more than `most` labels only those with the most mistakes are drawn, and the title says so.
    """
    wrong = table.counts - np.diag(np.diag(table.counts))
    mistakes = wrong.sum(axis=0) + wrong.sum(axis=1)
    chosen = np.sort(np.argsort(-mistakes, kind="stable")[:most])
    counts = table.counts[np.ix_(chosen, chosen)]
    shares = counts / np.maximum(table.counts[chosen].sum(axis=1, keepdims=True), 1)
    names = [table.labels[i] for i in chosen]
    side = max(CELL * len(names) + 1.4, 3.6)
    figure, (axis,) = panels(1, width=side, height=side)
    # The root makes rare mistakes visible beside the diagonal.
    axis.imshow(np.sqrt(shares), cmap=SEQUENTIAL, vmin=0.0, vmax=1.0)
    axis.set_xticks(range(len(names)), names, rotation=90)
    axis.set_yticks(range(len(names)), names)
    for i, j in zip(*np.nonzero(counts), strict=True):
        colour = "w" if shares[i, j] > 0.4 else "k"
        axis.text(j, i, counts[i, j], ha="center", va="center", fontsize=5, color=colour)
    cut = "" if len(chosen) == len(table.labels) else f" ({len(chosen)} of {len(table.labels)})"
    axis.set(xlabel="predicted", ylabel="true", title=f"tokens by label{cut}")
    return figure


def draw_reliability(tables: Mapping[str, Reliability]) -> Any:
    """One panel per table: accuracy by confidence over the diagonal, answers counted below it.

    The gap between a bar and the diagonal is what the calibration error averages.
    """
    figure, axes = panels(len(tables), width=3.8, height=3.9)
    look = {"align": "edge", "edgecolor": "white", "linewidth": 0.6}
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        full = table.counts > 0
        left, width = table.edges[:-1][full], np.diff(table.edges)[full]
        share = table.counts[full] / max(table.counts.sum(), 1)
        axis.bar(left, table.accuracy[full], width, color=COLOURS[0], label="right", **look)
        axis.bar(left, share, width / 3, color=COLOURS[1], label="of all answers", **look)
        axis.plot([0, 1], [0, 1], color=INK, lw=1, ls="--")
        axis.plot(table.confidence[full], table.accuracy[full], "o", ms=4, color=INK)
        axis.legend(frameon=False, loc="upper left", fontsize=8)
        error = f"calibration error {100 * table.expected_error:.2f} %"
        axis.set(title=f"{title}\n{error}", xlabel="confidence", xlim=(0, 1), ylim=(0, 1))
    axes[0].set_ylabel("share that is right")
    return figure
