"""The table, the picture and what the measured curves say about text that nobody has counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from panels import Curve, Panel, draw_panels
from results import Rows

from mrflearn.plots.figure import save

Row = dict[str, Any]
BYTES_OF_A_PAIR = 24  # two words and a count, 8 bytes each
GOAL_WORDS, GOAL_VOCABULARY = 1e12, 1e6


def write_report(rows: Rows, output: Path) -> None:
    """`report.md` and `curves.png`."""
    counted = grouped(rows.latest(kind="counting"), "known")
    steps = grouped(rows.latest(kind="step"), "device")
    text = ["| vocabulary | words of text | seconds | words a second | pairs at offsets 1, 2 |"]
    text.append("|---|---|---|---|---|")
    for known, own in counted.items():
        for row in own:
            pairs = ", ".join(f"{number:,}" for number in row["pairs"])
            speed = row["words"] / row["seconds"]
            text.append(
                f"| {known:,} | {row['words']:,} | {row['seconds']:.3f} | {speed:,.0f} | {pairs} |"
            )
    text += ["", "| device | vocabulary | seconds a step | GPU memory |", "|---|---|---|---|"]
    for device, own in steps.items():
        for row in own:
            memory = f"{row['memory_gb']:.2f} GB" if row["memory_gb"] else "-"
            text.append(f"| {device} | {row['words']:,} | {row['seconds']:.4g} | {memory} |")
    text += ["", *forecasts(counted, steps), ""]
    (output / "report.md").write_text("\n".join(text), encoding="utf-8")
    save(draw_panels(panels_of(counted, steps)), output / "curves.png")


def grouped(rows: Sequence[Row], key: str) -> dict[Any, list[Row]]:
    """What rows asked and found, by one of their entries, in the order of words."""
    flat = sorted(({**row["point"], **row} for row in rows), key=lambda row: row["words"])
    return {name: [row for row in flat if row[key] == name] for name in {r[key]: 0 for r in flat}}


def panels_of(counted: dict[int, list[Row]], steps: dict[str, list[Row]]) -> list[Panel]:
    """Seconds of counting, distinct pairs, seconds of a step."""
    names = {known: f"{known:,} known" for known in counted}
    seconds = {names[k]: curve(own, "seconds") for k, own in counted.items()}
    pairs = {
        f"{names[k]}, offset {offset + 1}": Curve(
            [row["words"] for row in own], [row["pairs"][offset] for row in own]
        )
        for k, own in counted.items()
        for offset in range(2)
    }
    each = {device: curve(own, "seconds") for device, own in steps.items()}
    found = [
        Panel("Counting, one core", "words of text", "seconds", seconds),
        Panel("Distinct pairs", "words of text", "pairs", pairs),
        Panel("One value and gradient", "vocabulary", "seconds", each),
    ]
    return [panel for panel in found if panel.curves]


def curve(rows: Sequence[Row], key: str) -> Curve:
    """An entry of rows against their words."""
    return Curve([row["words"] for row in rows], [row[key] for row in rows])


def slope(rows: Sequence[Row], first: float, last: float) -> float:
    """The power by which an entry grows between the last two rows."""
    return math.log(last / first) / math.log(rows[-1]["words"] / rows[-2]["words"])


def forecasts(counted: dict[int, list[Row]], steps: dict[str, list[Row]]) -> list[str]:
    """What the ends of the curves say, drawn on as straight lines on logarithmic paper."""
    said = []
    for known, own in counted.items():
        if len(own) < 2:
            continue
        before, last = own[-2:]
        speed = last["words"] / last["seconds"]
        hours = GOAL_WORDS / speed / 3600
        power = slope(own, before["pairs"][0], last["pairs"][0])
        pairs = last["pairs"][0] * (GOAL_WORDS / last["words"]) ** power
        pairs = min(pairs, float(known) ** 2)
        said.append(
            f"- {known:,} words known: {speed:,.0f} words a second, so {GOAL_WORDS:.0e} words take "
            f"{hours:,.0f} core-hours; pairs grow as the {power:.2f}th power of the text at its "
            f"end, which would make {pairs:.1e} at offset 1 ({pairs * BYTES_OF_A_PAIR / 1e9:,.0f} "
            "GB), if the power stayed; it falls."
        )
    for device, own in steps.items():
        if len(own) < 2:
            continue
        before, last = own[-2:]
        power = slope(own, before["seconds"], last["seconds"])
        seconds = last["seconds"] * (GOAL_VOCABULARY / last["words"]) ** power
        said.append(
            f"- {device}: a step grows as the {power:.2f}th power of the vocabulary; with "
            f"{GOAL_VOCABULARY:.0e} words it takes {seconds:,.1f} s"
            + (" (measured)." if last["words"] >= GOAL_VOCABULARY else ".")
        )
    return said
