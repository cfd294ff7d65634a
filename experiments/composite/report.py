"""Tables and pictures from rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results import Rows

from mrflearn.plots.figure import save
from mrflearn.plots.text import em_curve, perplexity_bars, topic_bars
from mrflearn.training.outcome import Row


def write_report(rows: Rows, output: Path) -> str:
    """The table of perplexities; pictures go beside the rows."""
    every = [{**row["point"], **row} for row in rows.latest() if "perplexity" in row]
    lines = ["| text | scale | model | perplexity | seconds |", "|---|---|---|---|---|"]
    for name, scale in dict.fromkeys((row["text"], row["scale"]) for row in every):
        mine = [row for row in every if (row["text"], row["scale"]) == (name, scale)]
        floor = mine[0].get("floor")
        start = f"| {name} | {scale} |"
        if floor is not None:
            lines.append(f"{start} (the text's own probabilities) | {floor:.2f} | |")
        for row in mine:
            seconds = row.get("seconds", "")
            lines.append(f"{start} {row['model']} | {row['perplexity']:.2f} | {seconds} |")
        if any(row["model"] == "all three" for row in mine):
            _draw(name, mine, floor, output)
    text = "\n".join(lines) + "\n"
    (output / "report.md").write_text(text)
    return text


def _draw(name: str, rows: list[dict[str, Any]], floor: float | None, output: Path) -> None:
    stem = name.lower()
    figures = [(row["model"], row["perplexity"]) for row in rows]
    save(perplexity_bars(figures, floor), output / f"{stem}-perplexity.png")
    for row in rows:
        if row["model"] != "all three":
            continue
        nan = float("nan")
        history = [Row(int(i), value, nan, 1.0, int(i) + 1, 0.0) for i, value, *_ in row["curve"]]
        save(em_curve(history), output / f"{stem}-em.png")
        words = [[(word, p) for word, p in topic] for topic in row["topic_words"]]
        save(topic_bars(words, row["shares"]), output / f"{stem}-topics.png")
