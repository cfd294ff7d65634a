"""Figures 3 and 4 and the words of section 5.2.1: what came out on the synthetic data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import published
from rows import Rows
from synthetic import ALPHAS

from mrflearn.plots.figure import COLOURS, INK, panels, save


def synthetic(rows: Rows, folder: Path) -> list[str]:
    """Figures 3 and 4, and the words of section 5.2.1."""
    errors = _errors(rows)
    largest = max((size for own in errors.values() for _, size in own), default=0)
    whole = {
        estimator: {draw: error for (draw, size), error in own.items() if size == largest}
        for estimator, own in errors.items()
    }
    lines: list[str] = []
    shared = sorted(set.intersection(*(set(own) for own in whole.values()))) if whole else []
    if {"pl", "pw", "pwpl"} <= whole.keys() and len(shared) > 1:
        pairs = {name: [whole[name][draw] for draw in shared] for name in ("pl", "pw", "pwpl")}
        _draw_scatter(pairs, shared, folder / "figure-3.png")
        lines += ["", f"## Section 5.2.1 and Figure 3: {len(shared)} generating models", ""]
        lines += _differences(pairs)
    curves = _curves(errors)
    if curves:
        _draw_curves(curves, folder / "figure-4.png")
        lines += ["", f"## Figure 4: learning curves (paper: {published.FIGURE_4})", ""]
        lines += ["| sequences | " + " | ".join(curves) + " |", "|---" * (len(curves) + 1) + "|"]
        for size in next(iter(curves.values())):
            cells = " | ".join(f"{100 * (1 - curve[size]):.2f}" for curve in curves.values())
            lines.append(f"| {size} | {cells} |")
    return lines


def _errors(rows: Rows) -> dict[str, dict[tuple[int, int], float]]:
    found: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows.of("hmm"):
        point = row["point"]
        own = found.setdefault(point["estimator"], {})
        own[point["draw"], point["size"]] = 1 - row["state_accuracy"]
    return found


def _differences(errors: Mapping[str, list[float]]) -> list[str]:
    import numpy as np
    from scipy.stats import ttest_rel

    apart = np.subtract(errors["pwpl"], errors["pw"])
    alike = np.corrcoef(errors["pwpl"], errors["pw"])[0, 1]
    test = ttest_rel(errors["pl"], errors["pwpl"])
    near = f"mean difference in testing error {apart.mean():.4f}, correlation {alike:.4f}"
    means = " and ".join(f"{fmean(errors[name]):.4f}" for name in ("pl", "pwpl"))
    return [
        f"PWPL and PW: {near} (paper: {published.PW_AND_PWPL}).",
        "",
        f"PL and PWPL: mean testing error {means}, paired t-test p = {test.pvalue:.2g}.",
        "",
        f"The paper: {published.FIGURE_3}.",
    ]


def _curves(errors: Mapping[str, dict[tuple[int, int], float]]) -> dict[str, dict[int, float]]:
    """The mean error at each size over the models that were trained at every size."""
    names = [name for name in ("pl", "pwpl") if name in errors]
    sizes = sorted({size for name in names for _, size in errors[name]})
    draws = [
        draw
        for draw in sorted({draw for name in names for draw, _ in errors[name]})
        if all((draw, size) in errors[name] for name in names for size in sizes)
    ]
    if len(sizes) < 2 or not draws:
        return {}
    return {
        name: {size: fmean(errors[name][draw, size] for draw in draws) for size in sizes}
        for name in names
    }


def _draw_scatter(errors: Mapping[str, list[float]], draws: list[int], path: Path) -> None:
    figure, axes = panels(2, width=4.4, height=4.0)
    for axis, other in zip(axes, ("pl", "pw"), strict=True):
        for place, alpha in enumerate(ALPHAS):
            own = [i for i, draw in enumerate(draws) if draw % len(ALPHAS) == place]
            x, y = ([errors[name][i] for i in own] for name in (other, "pwpl"))
            colour = COLOURS[place % len(COLOURS)] if place < len(COLOURS) else INK
            axis.plot(x, y, ".", color=colour, label=f"alpha {alpha:g}")
        ends = [min(map(min, errors.values())), max(map(max, errors.values()))]
        axis.plot(ends, ends, color=INK, lw=0.8)
        axis.set(xlabel=f"testing error, {other.upper()}", ylabel="testing error, PWPL")
    axes[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def _draw_curves(curves: Mapping[str, dict[int, float]], path: Path) -> None:
    figure, axes = panels(1, width=5.0, height=3.6)
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        accuracy = [100 * (1 - error) for error in curve.values()]
        axes[0].plot(list(curve), accuracy, "o-", color=colour, label=name.upper())
    axes[0].set(xlabel="training sequences", ylabel="testing accuracy, %", xscale="log")
    axes[0].legend(frameon=False)
    save(figure, path)
