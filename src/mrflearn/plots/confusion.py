"""A table of mistakes drawn: true labels down, predicted ones across."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrflearn.evaluation.tagging import Confusion
from mrflearn.plots.figure import panels

CELL = 0.32  # inches


def draw_confusion(table: Confusion, *, most: int = 30) -> Any:
    """The share of each true label's tokens that were given each label.

    With more than `most` labels only those with the most mistakes are drawn, and the title says so.
    """
    chosen = _chosen(table, most)
    counts = table.counts[np.ix_(chosen, chosen)]
    shares = counts / np.maximum(table.counts[chosen].sum(axis=1, keepdims=True), 1)
    names = [table.labels[i] for i in chosen]
    side = max(CELL * len(names) + 1.4, 3.6)
    figure, (axis,) = panels(1, width=side, height=side)
    # The root makes rare mistakes visible beside the diagonal.
    axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=1.0)
    axis.set_xticks(range(len(names)), names, rotation=90)
    axis.set_yticks(range(len(names)), names)
    for i, j in zip(*np.nonzero(counts), strict=True):
        dark = shares[i, j] > 0.4
        text = f"{counts[i, j]}"
        axis.text(j, i, text, ha="center", va="center", fontsize=5, color="w" if dark else "k")
    cut = "" if len(chosen) == len(table.labels) else f" ({len(chosen)} of {len(table.labels)})"
    axis.set(xlabel="predicted", ylabel="true", title=f"tokens by label{cut}")
    return figure


def _chosen(table: Confusion, most: int) -> list[int]:
    """The labels drawn, in their order."""
    if len(table.labels) <= most:
        return list(range(len(table.labels)))
    wrong = table.counts - np.diag(np.diag(table.counts))
    mistakes = wrong.sum(axis=0) + wrong.sum(axis=1)
    return sorted(np.argsort(-mistakes, kind="stable")[:most].tolist())
