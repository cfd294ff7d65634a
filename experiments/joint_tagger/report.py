"""Tables and the picture of the learning curve, redrawn from the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from panels import Curve, Panel, draw_panels
from points import Point
from results import Rows
from systems import JOINT, name
from tasks import TASKS

from mrflearn.plots.figure import save

PEERS = json.loads((Path(__file__).parent / "peers.json").read_text())
HEADER = (
    "| system | all | seen | unseen | valid | train s | tokens/s |\n|---|---|---|---|---|---|---|"
)
Found = dict[Point, dict[str, Any]]


def write_report(rows: Rows, folder: Path) -> None:
    """report.md with a table a task and the curve, and the curve's picture."""
    found = {Point(**row["point"]): row for row in rows.latest()}
    lines = ["# The joint tagger: results", "", f"Peers: {PEERS['conditions']}."]
    lines += ["Accuracy on test tokens in percent; seconds of wall time on a machine with other"]
    lines += ["work on it, so that only their order of magnitude counts.", ""]
    for task in TASKS:
        whole = {p: row for p, row in found.items() if p.task == task and p.labelled == 1.0}
        if whole:
            lines += [f"## {task}", "", HEADER, *_table(task, whole), ""]
    curves = {task: _curve(found, task) for task in TASKS}
    curves = {task: own for task, own in curves.items() if own}
    for task, own in curves.items():
        lines += [f"## {task}: few labels", "", *_curve_lines(own), ""]
    (folder / "report.md").write_text("\n".join(lines).rstrip() + "\n")
    if curves:
        _draw(curves, folder / "learning-curve.png")


def _table(task: str, found: Found) -> list[str]:
    lines = [_row(point, row) for point, row in found.items()]
    lines += [_peer(peer) for peer in PEERS.get(task, [])]
    if task == "treebank":
        lines += [_peer(peer) for peer in PEERS["published"]]
    return lines


def _row(point: Point, row: dict[str, Any]) -> str:
    test, valid = row["test"], row["valid"]
    cells = [100 * test[key] for key in ("accuracy", "seen", "unseen")]
    held = f"{100 * valid['accuracy']:.2f}" if valid else ""
    figures = " | ".join(f"{cell:.2f}" for cell in cells)
    effort = f"{row['train_seconds']:.1f} | {test['tokens_per_second']:,}"
    return f"| {name(point.system)} | {figures} | {held} | {effort} |"


def _peer(peer: dict[str, Any]) -> str:
    return f"| {peer['system']} | {peer['accuracy']:.2f} | | {peer['unseen']:.2f} | | | |"


def _curve(found: Found, task: str) -> dict[str, list[tuple[float, float]]]:
    """(labelled sentences, test accuracy) of the joint tagger with and without plain text."""
    curves: dict[str, list[tuple[float, float]]] = {}
    short = {point.system for point in found if point.task == task and point.labelled < 1}
    for point, row in found.items():
        if point.task != task or point.system not in short:
            continue
        kind = "joint field" if JOINT(point.system) else "HMM, second order"
        if point.unlabelled:
            kind += ", the rest without labels"
        curves.setdefault(kind, []).append((row["sentences"], 100 * row["test"]["accuracy"]))
    return {kind: sorted(own) for kind, own in curves.items()}


def _curve_lines(curves: dict[str, list[tuple[float, float]]]) -> list[str]:
    sizes = sorted({size for own in curves.values() for size, _ in own})
    lines = [
        "| labelled sentences | " + " | ".join(curves) + " |",
        "|---" * (len(curves) + 1) + "|",
    ]
    for size in sizes:
        cells = [f"{dict(own)[size]:.2f}" if size in dict(own) else "" for own in curves.values()]
        lines.append(f"| {size:,.0f} | " + " | ".join(cells) + " |")
    return lines


def _draw(curves: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> None:
    panels = [
        Panel(
            task,
            "labelled sentences",
            "accuracy, %",
            {kind: Curve(*map(list, zip(*own, strict=True))) for kind, own in parts.items()},
        )
        for task, parts in curves.items()
    ]
    save(draw_panels(panels, log_heights=False), path)
