"""Learned networks drawn: names, signs and widths, intervals of edges, stability, centrality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import SettingsError
from mrflearn.plots.figure import COLOURS, INK, panels

POSITIVE, NEGATIVE = COLOURS[0], COLOURS[1]
MOST_EDGES = 40  # of which intervals are drawn
LONGEST = 14  # letters of a name within its node
STEPS = 300  # of the layout


def draw_network(
    edges: ArrayLike,
    strengths: ArrayLike,
    names: Sequence[str],
    label: str = "coupling",
    *,
    signed: bool = True,
    groups: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    faint: ArrayLike | None = None,
) -> Any:
    """Variables as named nodes, near those that they are coupled to; the stronger, the thicker.

    Positive couplings are solid and blue, negative ones dashed and orange.  `groups` colours the
    nodes: one word for each variable, or the names of each group's variables.  `faint` says which
    edges to draw faintly, such as those whose interval holds 0.
    """
    from matplotlib.lines import Line2D

    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    size = np.asarray(strengths, dtype=np.float64)
    if size.shape != pairs.shape[:1]:
        raise SettingsError(f"{len(pairs)} edges, but strengths of shape {size.shape}.")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(names):
        raise SettingsError(f"edges name variables beyond the {len(names)} names.")
    pale = np.zeros(len(pairs), dtype=bool) if faint is None else np.asarray(faint, dtype=bool)
    places = spring_layout(len(names), pairs, np.abs(size))
    across = max(5.6, 1.15 * len(names) ** 0.5 + 2.4)
    figure, (axis,) = panels(1, width=across, height=across * 0.92)
    most = float(np.abs(size).max(initial=0.0)) or 1.0
    for k in np.argsort(np.abs(size), kind="stable"):
        share = abs(size[k]) / most
        axis.plot(
            *places[pairs[k]].T,
            color=(POSITIVE if size[k] >= 0 else NEGATIVE) if signed else INK,
            linestyle="-" if size[k] >= 0 else (0, (4, 2)),
            lw=0.6 + 6 * share,
            alpha=0.15 if pale[k] else 0.35 + 0.6 * share,
            zorder=1,
        )
    colour, legend = _node_colours(names, groups)
    for name, place, own in zip(names, places, colour, strict=True):
        text = shorten(name, LONGEST, placeholder="…") if " " in name else name[:LONGEST]
        box = {"boxstyle": "round,pad=0.35", "fc": own, "ec": INK, "lw": 0.9}
        axis.text(
            *place, text, ha="center", va="center", fontsize=8, bbox=box, zorder=3, in_layout=False
        )
    lines = [Line2D([], [], color=own, marker="s", ls="", label=name) for name, own in legend]
    signs = (("positive", POSITIVE, "-", size > 0), ("negative", NEGATIVE, "--", size < 0))
    for word, own, style, some in signs if signed else ():
        if some.any():
            lines.append(Line2D([], [], color=own, ls=style, lw=3, label=f"{word} {label}"))
    if pale.any():
        lines.append(Line2D([], [], color=POSITIVE, lw=3, alpha=0.15, label="interval holds 0"))
    if lines:
        legend = axis.legend(
            handles=lines,
            frameon=False,
            fontsize=8,
            loc="upper center",
            ncols=min(4, len(lines)),
            bbox_to_anchor=(0.5, 0.04),
        )
        legend.set_in_layout(False)
    axis.set_title(f"the thickest line: {most:.2f}", fontsize=9, fontweight="normal", loc="right")
    # Names do not count for the limits of an axis, and all edges may lie on one line.
    reach = np.abs(places).max(axis=0, initial=0.0) if len(places) else np.ones(2)
    wide, high = 1.24 * np.maximum(reach, 0.25 * max(float(reach.max()), 1.0))
    axis.set(xlim=(-wide, wide), ylim=(-high, high))
    axis.axis("off")
    return figure


def spring_layout(
    variables: int, edges: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Places in the plane: edges pull, all variables push [Fruchterman and Reingold 1991].

    It begins on a circle, so that a network is always drawn the same way.
    """
    angle = 2 * np.pi * np.arange(variables) / max(1, variables)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if variables < 3:
        return places
    pull = np.zeros((variables, variables))
    top = weights.max(initial=0.0) or 1.0
    pull[edges[:, 0], edges[:, 1]] = pull[edges[:, 1], edges[:, 0]] = weights / top
    length = 1.6 / np.sqrt(variables)
    for step in np.linspace(0.15, 0.002, STEPS):
        gap = places[:, None] - places[None]
        distance = np.sqrt((gap**2).sum(axis=2)) + 1e-9
        force = length**2 / distance**2 - pull * distance / length
        np.fill_diagonal(force, 0.0)
        move = (gap * (force / 1.0)[:, :, None]).sum(axis=1) - 0.4 * places
        reach = np.sqrt((move**2).sum(axis=1, keepdims=True)) + 1e-9
        places = places + move / reach * np.minimum(reach, step)
    return np.asarray(places - places.mean(axis=0))


def _node_colours(
    names: Sequence[str], groups: Mapping[str, Sequence[str]] | Sequence[str] | None
) -> tuple[list[Any], list[tuple[str, Any]]]:
    """The colour of each node, and of each group."""
    from matplotlib.colors import to_rgba

    if groups is None:
        return ["white"] * len(names), []
    if isinstance(groups, Mapping):
        known = {str(name): str(group) for group, own in groups.items() for name in own}
        unknown = sorted(set(known) - set(names))
        if unknown:
            raise SettingsError(f"the groups name {unknown[0]!r}, which is no variable.")
        words = [known.get(name, "") for name in names]
    else:
        words = [str(word) for word in groups]
        if len(words) != len(names):
            raise SettingsError(f"{len(words)} groups for {len(names)} variables.")
    order = list(dict.fromkeys(word for word in words if word))
    tints = {w: to_rgba(COLOURS[k % len(COLOURS)], 0.25) for k, w in enumerate(order)}
    full = [(word, COLOURS[k % len(COLOURS)]) for k, word in enumerate(order)]
    # Opaque tints, so that no line shows through a name.
    solid = {w: tuple(1 - 0.25 * (1 - part) for part in own[:3]) for w, own in tints.items()}
    return [solid.get(word, "white") for word in words], full


def draw_intervals(table: Any, *, most: int = MOST_EDGES) -> Any:
    """The strength of each edge with its interval, strongest first.

    `table` is what `table()` of a bootstrap or of standard errors gives, or has such a method.
    """
    columns: Mapping[str, Sequence[Any]] = table.table() if hasattr(table, "table") else table
    count = min(most, len(columns["strength"]))
    figure, (axis,) = panels(1, width=6.0, height=1.1 + 0.2 * max(count, 4))
    rows = np.arange(count)
    strength, low, high = (
        np.array(columns[name][:count], dtype=float) for name in ("strength", "low", "high")
    )
    sure = (low > 0) | (high < 0)
    axis.axvline(0, color=INK, lw=0.8, zorder=0)
    for chosen, colour in ((sure, POSITIVE), (~sure, "#9aa5b1")):
        axis.hlines(rows[chosen], low[chosen], high[chosen], color=colour, lw=2.2, alpha=0.7)
        axis.plot(strength[chosen], rows[chosen], "o", color=colour, ms=4)
    labels = [
        f"{one} - {two}"
        for one, two in zip(columns["variable"][:count], columns["and"][:count], strict=True)
    ]
    axis.set_yticks(rows, labels, fontsize=7)
    # A resample in which a state is never seen may reach far: that is cut off.
    ends = np.concatenate([low, high, strength, [0.0, 0.1]])
    left, right = np.quantile(ends, [0.01, 0.99])
    room = 0.05 * (right - left)
    axis.set(xlabel="strength", ylim=(count - 0.5, -0.5), xlim=(left - room, right + room))
    if "selected" in columns:
        for row, share in zip(rows, columns["selected"][:count], strict=True):
            axis.annotate(
                f"{100 * share:.0f} %",
                (1.01, row),
                xycoords=("axes fraction", "data"),
                fontsize=6,
                va="center",
            )
        axis.set_title("selected in", fontsize=7, loc="right", fontweight="normal")
    return figure


def draw_stability(found: Any) -> Any:
    """Correlations with the whole network against the share of rows that were kept.

    `found` is what `case_dropping` gives: means, and where nine in ten subsets lie.
    """
    figure, (axis,) = panels(1, width=5.2, height=3.6)
    shares = 100 * np.array(found.shares)
    ways = (("edges", found.edges), ("node strength", found.strengths))
    for (name, values), colour in zip(ways, COLOURS, strict=False):
        low, high = np.quantile(values, [0.05, 0.95], axis=1)
        axis.fill_between(shares, low, high, color=colour, alpha=0.18, lw=0)
        axis.plot(shares, values.mean(axis=1), "o-", color=colour, ms=4, label=name)
    axis.axhline(0.7, color=INK, lw=0.8, ls=":")
    axis.set(xlabel="rows kept, per cent", ylabel="correlation with all rows", ylim=(-0.05, 1.03))
    axis.invert_xaxis()
    axis.legend(frameon=False, loc="lower left")
    return figure


def draw_centrality(table: Mapping[str, Sequence[Any]]) -> Any:
    """One panel for each measure of `centrality`, variables from the most central downwards."""
    names = list(table["variable"])
    measures = [name for name in table if name != "variable"]
    order = np.argsort(np.array(table[measures[0]], dtype=float), kind="stable")
    figure, axes = panels(len(measures), width=2.3, height=1.0 + 0.2 * max(4, len(names)))
    rows = np.arange(len(names))
    for axis, measure in zip(axes, measures, strict=True):
        values = np.array(table[measure], dtype=float)[order]
        axis.plot(values, rows, "o-", color=POSITIVE, ms=4, lw=1)
        axis.set_title(measure.replace("_", " "), fontsize=9)
        axis.set_yticks(rows, [names[k] for k in order] if axis is axes[0] else [], fontsize=7)
        axis.grid(axis="y", lw=0.3)
    return figure
