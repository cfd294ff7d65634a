"""Tables and pictures from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from panels import Curve, Panel, draw_panels

from mrflearn.evaluation.recovery import recovery
from mrflearn.plots.figure import save

Row = dict[str, Any]
ENOUGH, CLOSE = 10_000, 1.20  # samples from which on, and within what ratio, errors are alike
LEAST_CLIQUES, CONSTANT = 900, 1.25  # from where on, and within what ratio, time is linear


def write_report(rows: Sequence[Row], output: Path) -> None:
    """One picture a figure, all numbers in `report.md`, the error of every run in `errors.csv`."""
    output.mkdir(parents=True, exist_ok=True)
    rows = [*(row for row in rows if row["figure"] != "scaling"), *_least(rows)]
    text = ["# LAP: our figures", "", *_verdicts(rows)]
    for figure in ("figure 2", "figure 3", "figure 4"):
        mine = [row for row in rows if row["figure"] == figure]
        if mine:
            errors, variances = relative_errors(mine), estimator_variances(mine)
            save(draw_panels(_panels(figure, errors, variances)), output / f"{_file(figure)}.png")
            text += ["", f"## {figure}", "", *_table(errors, variances)]
    mine = [row for row in rows if row["figure"] == "scaling"]
    if mine:
        save(draw_panels([_scaling(mine)]), output / "scaling.png")
        text += ["", "## Time a clique", "", *_scaling_table(mine)]
    (output / "report.md").write_text("\n".join(text) + "\n")
    _write_errors(rows, output / "errors.csv")


def _least(rows: Sequence[Row]) -> list[Row]:
    """Of all times of a point the least: it has the least noise."""
    found: dict[tuple[str, int], Row] = {}
    for row in sorted((r for r in rows if r["figure"] == "scaling"), key=lambda r: -r["seconds"]):
        found[row["name"], row["cliques"]] = row
    return sorted(found.values(), key=lambda row: (row["name"], row["cliques"]))


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """What the figures are to show, and whether they do."""
    lines = []
    for figure in ("figure 2", "figure 3", "figure 4"):
        errors = relative_errors([row for row in rows if row["figure"] == figure])
        many = sorted({n for by in errors.values() for n in by if n >= ENOUGH})
        if many:
            widest = max(map(float, _spreads(errors, many)))
            holds = "holds" if widest <= CLOSE else "misses"
            lines.append(
                f"- {figure}, {ENOUGH:,} samples and more: mean errors of the LAP variants and PL "
                f"are within {100 * (widest - 1):.0f} % of each other ({holds}: at most "
                f"{100 * (CLOSE - 1):.0f} %)"
            )
    for name in dict.fromkeys(row["name"] for row in rows if row["figure"] == "scaling"):
        own = [r for r in rows if r["figure"] == "scaling" and r["name"] == name]
        each = [r["seconds"] / r["cliques"] for r in own if r["cliques"] > LEAST_CLIQUES]
        if len(each) > 1:
            widest, most = max(each) / min(each), max(r["cliques"] for r in own)
            mean = sum(each) / len(each)
            off = max(abs(seconds / mean - 1) for seconds in each)
            holds = "holds" if widest <= CONSTANT else "misses"
            lines.append(
                f"- time a clique of {name}, {LEAST_CLIQUES:,} to {most:,} cliques: "
                f"largest / smallest {widest:.2f} ({holds}: at most {CONSTANT}); within "
                f"{100 * off:.0f} % of its mean"
            )
    return lines


def _write_errors(rows: Sequence[Row], path: Path) -> None:
    """One line a run: what the tables are made of, without the parameters themselves."""
    lines = ["figure,samples,run,name,relative_error,seconds"]
    for figure in ("figure 2", "figure 3", "figure 4"):
        mine = [row for row in rows if row["figure"] == figure]
        best = {(r["samples"], r["run"]): np.array(r["values"]) for r in mine if r["name"] == "ML"}
        for row in mine:
            truth = best.get((row["samples"], row["run"]))
            if truth is not None:
                error = recovery(np.array(row["values"]), truth).relative
                place = f"{figure},{row['samples']},{row['run']},{row['name']}"
                lines.append(f"{place},{error:.6f},{row['seconds']:.3f}")
    lines += [
        f"scaling,{r['samples']},,{r['name']} {r['cliques']} cliques,,{r['seconds']:.4f}"
        for r in rows
        if r["figure"] == "scaling"
    ]
    path.write_text("\n".join(lines) + "\n")


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
    """The variance over runs of each parameter, averaged over the parameters."""
    found: dict[str, dict[int, list[list[float]]]] = {}
    for row in rows:
        found.setdefault(row["name"], {}).setdefault(row["samples"], []).append(row["values"])
    return {
        name: {n: float(np.var(values, axis=0, ddof=1).mean()) for n, values in by.items()}
        for name, by in found.items()
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
        Panel(f"{figure}: variance", "samples", "variance of the estimates", spread),
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
    lines += ["", "Variance of the estimates:", "", *_head(head)]
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
    return figure.replace(" ", "-")
