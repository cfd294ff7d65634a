"""Tables and pictures from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import GRAPHS, SETTINGS
from panels import Curve, Panel, draw_panels
from results import Rows

from mrflearn.evaluation.recovery import recovery
from mrflearn.plots.figure import save

Row = dict[str, Any]
ENOUGH, CLOSE = 10_000, 1.20  # samples from which on, and within what ratio, errors are alike
LEAST_CLIQUES = 900  # from where on time is compared


def write_report(found: Rows, output: Path) -> None:
    """One picture a figure and setting, all numbers in `report.md`."""
    rows = [{**row["point"], **row} for row in found]
    text = ["# LAP: our figures", "", *_verdicts(rows)]
    for setting in SETTINGS:
        for figure in GRAPHS:
            mine = _of(rows, figure, setting)
            if mine:
                errors, variances = relative_errors(mine), estimator_variances(mine)
                title = figure if setting == "0/1" else f"{figure}, {setting}"
                panels = _panels(title, errors, variances)
                save(draw_panels(panels), output / f"{_file(title)}.png")
                text += ["", f"## {title}", "", *_table(errors, variances)]
    times = _least(rows)
    if times:
        save(draw_panels([_scaling(times)]), output / "scaling.png")
        text += ["", "## Time a clique", "", *_scaling_table(times)]
    (output / "report.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _of(rows: Sequence[Row], figure: str, setting: str) -> list[Row]:
    return [r for r in rows if r["figure"] == figure and r.get("setting") == setting]


def _least(rows: Sequence[Row]) -> list[Row]:
    """Of all times of a point the least: it has the least noise."""
    found: dict[tuple[str, int], Row] = {}
    for row in sorted((r for r in rows if r["figure"] == "scaling"), key=lambda r: -r["seconds"]):
        found[row["name"], row["cliques"]] = row
    return sorted(found.values(), key=lambda row: (row["name"], row["cliques"]))


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """What the figures are to show, and whether they do."""
    lines = []
    for setting in SETTINGS:
        for figure in GRAPHS:
            errors = relative_errors(_of(rows, figure, setting))
            many = sorted({n for by in errors.values() for n in by if n >= ENOUGH})
            if many:
                widest = max(map(float, _spreads(errors, many)))
                holds = "holds" if widest <= CLOSE else "misses"
                lines.append(
                    f"- {figure}, {setting}, {ENOUGH:,} samples and more: mean errors of the LAP "
                    f"variants and PL are within {100 * (widest - 1):.0f} % of each other "
                    f"({holds}: at most {100 * (CLOSE - 1):.0f} %)"
                )
    rows = _least(rows)
    for name in dict.fromkeys(row["name"] for row in rows if row["figure"] == "scaling"):
        own = [r for r in rows if r["figure"] == "scaling" and r["name"] == name]
        each = [r["seconds"] / r["cliques"] for r in own if r["cliques"] > LEAST_CLIQUES]
        if len(each) > 1:
            widest, most = max(each) / min(each), max(r["cliques"] for r in own)
            mean = sum(each) / len(each)
            off = max(abs(seconds / mean - 1) for seconds in each)
            lines.append(
                f"- time a clique of {name}, {LEAST_CLIQUES:,} to {most:,} cliques: "
                f"largest / smallest {widest:.2f}, each the least of its measurements; within "
                f"{100 * off:.0f} % of their mean"
            )
    return lines


def relative_errors(rows: Sequence[Row]) -> dict[str, dict[int, list[float]]]:
    """|estimate - ML| / |ML| of every run, by estimator and number of samples."""
    best = {(r["samples"], r["run"]): np.array(r["values"]) for r in rows if r["name"] == "ML"}
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        key = (row["samples"], row["run"])
        if row["name"] != "ML" and key in best:
            error = recovery(np.array(row["values"]), best[key]).relative
            found.setdefault(row["name"], {}).setdefault(row["samples"], []).append(error)
    return found


def estimator_variances(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """The mean square of estimate - truth over runs and parameters."""
    truth = {(r["samples"], r["run"]): np.array(r["truth"]) for r in rows if "truth" in r}
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if (row["samples"], row["run"]) not in truth:
            continue  # that run is not done yet
        off = np.array(row["values"]) - truth[row["samples"], row["run"]]
        found.setdefault(row["name"], {}).setdefault(row["samples"], []).append((off**2).mean())
    return {
        name: {n: float(np.mean(values)) for n, values in by.items()} for name, by in found.items()
    }


def _panels(
    figure: str, errors: dict[str, dict[int, list[float]]], variances: dict[str, dict[int, float]]
) -> list[Panel]:
    curves = {
        name: Curve(
            sorted(by),
            [float(np.mean(by[n])) for n in sorted(by)],
            [float(np.std(by[n])) for n in sorted(by)],
        )
        for name, by in errors.items()
    }
    spread = {n: Curve(sorted(by), [by[k] for k in sorted(by)]) for n, by in variances.items()}
    return [
        Panel(f"{figure}: error", "samples", "relative error to ML", curves),
        Panel(
            f"{figure}: distance from the truth",
            "samples",
            "mean square of estimate - truth",
            spread,
        ),
    ]


def _table(
    errors: dict[str, dict[int, list[float]]], variances: dict[str, dict[int, float]]
) -> list[str]:
    samples = sorted({n for by in errors.values() for n in by})
    head = ["estimator", *(f"{n:,}" for n in samples)]
    lines = ["Relative error to ML (mean and standard deviation over runs):", "", *_head(head)]
    for name, by in errors.items():
        cells = [f"{np.mean(by[n]):.4f} ± {np.std(by[n]):.4f}" for n in samples]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    lines.append("| " + " | ".join(["largest / smallest", *_spreads(errors, samples)]) + " |")
    lines += ["", "Mean square of estimate - truth:", "", *_head(head)]
    for name, spread in variances.items():
        lines.append("| " + " | ".join([name, *(f"{spread[n]:.2e}" for n in samples)]) + " |")
    return lines


def _spreads(errors: dict[str, dict[int, list[float]]], samples: Sequence[int]) -> list[str]:
    """How far apart the LAP variants and PL are: the ratio of their mean errors."""
    near = [by for name, by in errors.items() if name == "PL" or name.startswith("LAP")]
    means = [[float(np.mean(by[n])) for by in near] for n in samples]
    return [f"{max(own) / min(own):.2f}" for own in means]


def _scaling(rows: Sequence[Row]) -> Panel:
    names = list(dict.fromkeys(row["name"] for row in rows))
    curves = {}
    for name in names:
        mine = sorted((r["cliques"], r["seconds"]) for r in rows if r["name"] == name)
        curves[name] = Curve([c for c, _ in mine], [s for _, s in mine])
    return Panel("time of LAP", "cliques", "seconds", curves)


def _scaling_table(rows: Sequence[Row]) -> list[str]:
    cliques = sorted({row["cliques"] for row in rows})
    lines = ["Microseconds a clique:", "", *_head(["auxiliary", *(f"{c:,}" for c in cliques)])]
    for name in dict.fromkeys(row["name"] for row in rows):
        known = {r["cliques"]: 1e6 * r["seconds"] / r["cliques"] for r in rows if r["name"] == name}
        cells = [f"{known[c]:.1f}" if c in known else "" for c in cliques]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def _head(cells: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(cells) + " |", "|" + "---|" * len(cells)]


def _file(figure: str) -> str:
    return figure.replace(", ", "-").replace(" ", "-")
