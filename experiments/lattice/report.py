"""The table of what was learned from images."""

from __future__ import annotations

from pathlib import Path

from results import Rows

HEADER = (
    "| states, torus, coupling | learned by | new images, nats a pixel | log Z a pixel | bound "
)
HEADER += "on it | error of parameters | processor seconds |"


def write_report(rows: Rows, output: Path) -> None:
    """`report.md`."""
    lines = [HEADER, "|---|---|---|---|---|---|---|"]
    for row in rows.latest():
        point = row["point"]
        field = f"{point['states']}, {point['side']} x {point['side']}, {point['coupling']}"
        bound = "" if row["bound"] is None else f"{row['bound']:.4f}"
        cells = (field, point["name"], f"{row['held_out']:.4f}", f"{row['log_z']:.4f}", bound,
                 f"{row['error']:.3f}", f"{row['seconds']:.2f}")  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    (output / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
