"""Tables and pictures redrawn from the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measure import from_plain
from results import Rows

from mrflearn.plots.figure import COLOURS, panels, save
from mrflearn.plots.labels import draw_reliability

HERE = Path(__file__).parent
CONDITIONS = (
    "Ours: c2 = 1 as theirs; seconds are of wall time with feature extraction, of one core, on "
    "machines that differ from row to row and from theirs: `make bench-crf` compares times in one "
    "run. Scores in percent."
)
COLUMNS = ("accuracy", "unseen", "precision", "recall", "f1", "train_seconds")


def write_report(rows: Rows, folder: Path) -> None:
    """report.md with every task's table, and the pictures there are rows for."""
    peers = json.loads((HERE / "peers.json").read_text())
    lines = ["# Chain CRFs: results", "", f"Peers: {peers['conditions']}.", CONDITIONS]
    scores = rows.latest(kind="score")
    for row in scores:
        whole = row["point"]["sentences"] is None  # peers were trained on all there is
        lines += _table(row, peers.get(row["point"]["task"], []) if whole else [])
    calibrations = rows.latest(kind="calibration")
    lines += _calibration_lines(calibrations)
    (folder / "report.md").write_text("\n".join(lines) + "\n")
    for row in calibrations:
        _draw_calibration(row, folder / f"calibration-{row['point']['task']}.png")
    curves = rows.latest(kind="curve")
    if curves:
        _draw_curves(curves, folder / "learning-curve.png")


def _table(row: dict[str, Any], peers: list[dict[str, Any]]) -> list[str]:
    ours = {"system": "mrflearn"} | {
        name: (1 if name == "train_seconds" else 100) * row[name]
        for name in COLUMNS
        if row.get(name) is not None
    }
    shown = [c for c in COLUMNS if any(c in system for system in [ours, *peers])]
    lines = ["", f"## {row['point']['task']} ({row['train_sentences']:,} training sentences)", ""]
    lines += ["| system | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for system in [ours, *peers]:
        cells = [f"{system[c]:.2f}" if c in system else "" for c in shown]
        lines.append(f"| {system['system']} | " + " | ".join(cells) + " |")
    effort = f"Objective {row['objective']:.1f} after {row['iterations']} iterations; "
    speed = f"{row['tag_tokens_per_second']:,.0f} tokens/s tagged, features included."
    lines += ["", effort + speed]
    return lines


def _calibration_lines(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = ["", "## Calibration (expected calibration error, percent)", ""]
    lines += ["| task | of | before | after | temperature |", "|---|---|---|---|---|"]
    for row in rows:
        for name in row["before"]:
            errors = [100 * row[when][name]["expected_error"] for when in ("before", "after")]
            cells = f"{errors[0]:.2f} | {errors[1]:.2f} | {row['temperature']:.3f}"
            lines.append(f"| {row['point']['task']} | {name} | {cells} |")
    return lines


def _draw_calibration(row: dict[str, Any], path: Path) -> None:
    tables = {
        f"{name}, {when}": from_plain(row[when][name])
        for name in row["before"]
        for when in ("before", "after")
    }
    save(draw_reliability(tables), path)


def _draw_curves(rows: list[dict[str, Any]], path: Path) -> None:
    tasks = sorted({row["point"]["task"] for row in rows})
    figure, axes = panels(len(tasks), width=4.4, height=3.4)
    for axis, task in zip(axes, tasks, strict=True):
        own = sorted(
            (row for row in rows if row["point"]["task"] == task),
            key=lambda row: row["train_sentences"],
        )
        sizes = [row["train_sentences"] for row in own]
        for name, colour in zip(("f1", "accuracy", "unseen"), COLOURS, strict=False):
            if all(row.get(name) is not None for row in own):
                values = [100 * row[name] for row in own]
                axis.plot(sizes, values, "o-", color=colour, label=name)
        axis.set(title=task, xlabel="training sentences", xscale="log")
        axis.legend(frameon=False)
    axes[0].set_ylabel("percent")
    save(figure, path)
