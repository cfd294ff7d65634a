"""The table and the picture of what each estimator costs and how far it is off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from panels import Curve, Panel, draw_panels
from results import Rows

from mrflearn.plots.figure import save

Row = dict[str, Any]


def write_report(found: Rows, output: Path) -> None:
    """`report.md` and `trade-offs.png`."""
    rows = [{**row["point"], **row} for row in found.latest()]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    text = [
        "| graph | estimator | relative error | processor seconds | memory, MB |",
        "|---|---|---|---|---|",
    ]
    panels = []
    for graph in graphs:
        curves = {}
        for name, own in by_estimator([row for row in rows if row["graph"] == graph]).items():
            if not own:
                text.append(f"| {graph} | {name} | refused: too wide | - | - |")
                continue
            seconds, error, memory = (
                [row[key] for row in own] for key in ("seconds", "error", "memory_mb")
            )
            spread = f"{np.mean(error):.3f} ± {np.std(error):.3f}"
            text.append(
                f"| {graph} | {name} | {spread} | {np.mean(seconds):.2f} | {np.mean(memory):.0f} |"
            )
            curves[name] = Curve([float(np.mean(seconds))], [float(np.mean(error))])
        panels.append(Panel(graph, "processor seconds", "relative error of parameters", curves))
    save(draw_panels(panels), output / "trade-offs.png")
    (output / "report.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def by_estimator(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The measured rows of each estimator, in order of first appearance; none where it refused."""
    order = list(dict.fromkeys(row["estimator"] for row in rows))
    ranked = sorted(rows, key=lambda row: order.index(row["estimator"]))
    return {
        name: [row for row in own if "error" in row]
        for name, own in groupby(ranked, key=lambda row: row["estimator"])
    }
