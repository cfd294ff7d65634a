"""Fields drawn: couplings as a matrix, as a network and on a lattice, and moments against data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import SettingsError
from mrflearn.plots.figure import COLOURS, DIVERGING, INK, SEQUENTIAL, panels

Array = NDArray[np.float64]
MOST_NAMES = 40  # more would overlap
FEW_NAMES = 12
LETTER = 4.6  # points, its width
BY_PROPERTY = "GAVILMFYWCSTNQPHKRDEU"  # letters of proteins, those that are alike together


def draw_heat_map(
    matrix: ArrayLike,
    names: Sequence[str] | None = None,
    label: str = "coupling",
    *,
    first: int = 0,
    signed: bool | None = None,
    axes: tuple[str, str] = ("", ""),
) -> Any:
    """A square matrix of pair strengths: red and blue around zero, or grey from zero upwards.

    `signed` says which; None: as some are negative or not.  Where there are too many names, rows
    and columns are counted from `first`; `axes` says what rows and columns are.
    """
    matrix = _numbers(matrix, "a matrix")
    figure, (axis,) = panels(1, width=5.6, height=4.8)
    two_sided = matrix.min(initial=0.0) < 0 if signed is None else signed
    colours, low, high = _colours(matrix, two_sided)
    begin, end = first - 0.5, first + len(matrix) - 0.5
    image = axis.imshow(matrix, cmap=colours, interpolation="nearest", vmin=low, vmax=high)
    image.set_extent((begin, end, end, begin))
    figure.colorbar(image, ax=axis, label=label, shrink=0.85)
    axis.set(ylabel=axes[0], xlabel=axes[1])
    axis.spines[:].set_visible(True)
    if names is not None and len(names) <= MOST_NAMES:
        ticks = range(first, first + len(names))
        axis.set_xticks(ticks, names, rotation=90, fontsize=8)
        axis.set_yticks(ticks, names, fontsize=8)
    return figure


def draw_graph(
    edges: ArrayLike,
    strengths: ArrayLike,
    names: Sequence[str],
    label: str = "coupling",
    *,
    signed: bool = True,
    columns: int = 0,
) -> Any:
    """Variables on a circle and their edges, the stronger the thicker and the darker.

    An edge is a pair of variables, which are numbers: their places in `names`, from 0 on.  With
    `columns`, variables lie row by row on a lattice of so many.  Where there are too many names,
    only variables with an edge are on the circle, or named on the lattice; strengths that have a
    sign are blue and red, even where all that are drawn have the same.
    """
    edges, strengths = _edges(edges, len(names)), _numbers(strengths, "strengths")
    if strengths.shape != edges.shape[:1]:
        raise SettingsError(f"{len(edges)} edges, but strengths of shape {strengths.shape}.")
    from matplotlib.collections import LineCollection

    many = len(names) > MOST_NAMES
    shown = np.unique(edges) if many else np.arange(len(names))
    angle = np.full(len(names), np.nan)
    angle[shown] = np.pi / 2 - 2 * np.pi * np.arange(len(shown)) / max(len(shown), 1)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    places = _lattice(len(names), columns) if columns else circle
    # The circle leaves room for its names, in radii; few of them are level.
    radius = max(130, 1.2 * len(shown))  # in points, so that names have 8 of them each
    across = 1.15 + LETTER * max((len(names[i]) for i in shown), default=0) / radius
    upward = across if len(shown) > FEW_NAMES else 1.25
    width, height = (5.4, 5.4) if columns else (across * radius / 36, upward * radius / 36)
    figure, (axis,) = panels(1, width=width, height=height + 0.6)
    size = np.abs(strengths)
    colours, low, high = _colours(strengths, signed)
    order = np.argsort(size, kind="stable")  # the strongest are drawn last, on top
    lines = LineCollection(
        list(places[edges[order]]),
        lw=0.5 + 4 * size[order] / high,
        array=strengths[order],
        cmap=colours,
        clim=(low, high),
    )
    axis.add_collection(lines)
    axis.scatter(*places.T, s=60, color="white", edgecolors=INK, zorder=2)
    for i in shown:
        if columns:
            axis.annotate(names[i], places[i], (4, 4), textcoords="offset points", fontsize=8)
        else:
            _name_on_circle(axis, names[i], angle[i], level=len(shown) <= FEW_NAMES)
    figure.colorbar(lines, ax=axis, label=label, location="bottom", shrink=0.6, aspect=30)
    axis.set(aspect="equal")
    if not columns:
        axis.set(xlim=(-across, across), ylim=(-upward, upward))
    axis.axis("off")
    return figure


def draw_contact_map(
    contacts: ArrayLike,
    pairs: ArrayLike,
    hits: ArrayLike,
    positions: Sequence[int],
) -> Any:
    """Contacts of a structure in grey, predicted pairs of columns over them: right or wrong.

    `contacts[i, j]` is true where columns i and j touch; `pairs` are columns from 0, `hits` which
    of them touch.  Both sides of the diagonal show the same.
    """
    found, right = _edges(pairs, len(positions)), np.asarray(hits, dtype=np.bool_)
    touching, at = np.argwhere(np.asarray(contacts, dtype=np.bool_)), np.asarray(positions)
    figure, (axis,) = panels(1, width=5.6, height=5.6)
    size = (300 / max(len(at), 30)) ** 2
    axis.scatter(*at[touching].T, s=size, marker="s", color="#c9ced3", lw=0, label="structure")
    for name, own, colour in (("contact", right, COLOURS[0]), ("no contact", ~right, COLOURS[1])):
        both = np.concatenate([found[own], found[own, ::-1]])
        axis.scatter(*at[both].T, s=max(size, 12), color=colour, lw=0, label=f"predicted: {name}")
    ends = at.min() - 1, at.max() + 1
    axis.set(aspect="equal", xlim=ends, ylim=ends[::-1], xlabel="position", ylabel="position")
    axis.spines[:].set_visible(True)
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, fontsize=8)
    return figure


def draw_mutant_scan(scores: ArrayLike, positions: Sequence[int], letters: str, wild: str) -> Any:
    """The effect of every letter (rows) at every position (columns); dots mark what is there."""
    matrix = _numbers(scores, "a matrix")
    order = sorted(range(len(letters)), key=lambda k: BY_PROPERTY.find(letters[k]))
    width = min(24.0, max(5.6, 1.8 + 0.13 * len(positions)))
    figure, (axis,) = panels(1, width=width, height=1.2 + 0.17 * len(letters))
    colours, low, high = _colours(matrix, signed=True)
    image = axis.imshow(
        matrix[:, order].T,
        cmap=colours,
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="nearest",
    )
    rows = [order.index(letters.index(own)) for own in wild]
    axis.scatter(range(len(rows)), rows, s=5, color=INK, lw=0)
    every = next(n for n in (1, 5, 10, 20, 50, 100, 10**9) if len(positions) <= 40 * n)
    ticks = {place: at for place, at in enumerate(positions) if every == 1 or at % every == 0}
    axis.set_xticks(list(ticks), list(ticks.values()), fontsize=8)
    axis.set_yticks(range(len(order)), [letters[k] for k in order], fontsize=7)
    axis.set(xlabel="position", ylabel="new letter")
    axis.spines[:].set_visible(True)
    figure.colorbar(image, ax=axis, label="effect, nats", pad=0.01)
    return figure


def _name_on_circle(axis: Any, name: str, angle: float, *, level: bool) -> None:
    """Writes a name beside its place, level or outwards, which covers no other."""
    x, y = np.cos(angle), np.sin(angle)
    side, middle = "left" if x > -1e-9 else "right", "center"
    turn = 0.0 if level else np.degrees(angle) + 180 * (side == "right")
    if level and abs(x) < 0.1:
        side, middle = "center", "bottom" if y > 0 else "top"
    look = {"ha": side, "va": middle, "fontsize": 8, "in_layout": False}
    axis.text(1.07 * x, 1.07 * y, name, rotation=turn, rotation_mode="anchor", **look)


def _numbers(values: ArrayLike, what: str) -> Array:
    """Lists, arrays and tensors as an array."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{what} of numbers: {error}.") from error


def _edges(values: ArrayLike, variables: int) -> NDArray[np.int64]:
    """One row an edge: the numbers of two variables."""
    found = _numbers(values, "edges are pairs")
    found = found if found.size else found.reshape(0, 2)
    if found.ndim != 2 or found.shape[1] != 2:
        wanted = "edges are pairs of variables, as in [(0, 1), (1, 2)]"
        raise SettingsError(f"{wanted}, not of shape {found.shape}.")
    edges = found.astype(np.int64)
    wrong = ((edges != found) | (edges < 0) | (edges >= variables)).any(axis=1)
    if wrong.any():
        first, second = found[wrong][0]
        problem = f"edge ({first:g}, {second:g}), but there are {variables} names, from 0 on"
        raise SettingsError(f"{problem}. Does it count from 1?")
    return edges


def _lattice(variables: int, columns: int) -> NDArray[np.int64]:
    """The places of variables that lie row by row on a lattice."""
    row, column = np.divmod(np.arange(variables), columns)
    return np.stack([column, -row], axis=1)


def _colours(strengths: Array, signed: bool) -> tuple[str, float, float]:
    """The colour map and its ends: two-sided around zero, or from zero upwards."""
    limit = (float(np.abs(strengths).max()) if strengths.size else 0.0) or 1.0
    return (DIVERGING, -limit, limit) if signed else (SEQUENTIAL, 0.0, limit)


def draw_lattices(
    fields: Mapping[str, tuple[Array, Array]], edges: NDArray[np.int64], columns: int
) -> Any:
    """One panel per field: (spin fields, spin couplings) as coloured nodes and edges of a grid."""
    from matplotlib.collections import LineCollection

    figure, axes = panels(len(fields), width=3.3, height=3.6)
    limit = max(np.abs(np.concatenate([np.concatenate(pair) for pair in fields.values()])).max(), 1)
    look: dict[str, Any] = {"cmap": DIVERGING, "clim": (-limit, limit)}
    for axis, (title, (own, couplings)) in zip(axes, fields.items(), strict=True):
        places = _lattice(len(own), columns)
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
    figure, (axis,) = panels(1, width=4.6, height=4.4)
    reach = float(np.abs(truth).max()) * 1.15
    axis.plot([-reach, reach], [-reach, reach], color=INK, lw=0.8, zorder=1)
    for (name, values), colour, marker in zip(estimates.items(), COLOURS, "o^sDv", strict=False):
        axis.scatter(truth, values, s=26, color=colour, marker=marker, alpha=0.75, label=name)
    axis.set(xlabel="true parameter", ylabel="learned parameter", aspect="equal")
    axis.legend(frameon=False)
    return figure


def draw_moments(matches: Mapping[str, tuple[Array, Array]]) -> Any:
    """One panel per kind of frequency: (in the data, in the field)."""
    figure, axes = panels(len(matches), width=4.2, height=4.0)
    for axis, (title, (data, field)), colour in zip(axes, matches.items(), COLOURS, strict=False):
        axis.plot([0, 1], [0, 1], color=INK, lw=0.8, zorder=1)
        axis.scatter(data, field, s=10, color=colour, alpha=0.5, rasterized=len(data) > 5000)
        axis.set(title=title, xlabel="in the data", ylabel="in the field", aspect="equal")
    return figure
