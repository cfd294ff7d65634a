"""Tables and pictures from rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results import Rows

from mrflearn.plots import em_curve
from mrflearn.plots.figure import COLOURS, panels, save
from mrflearn.training.outcome import Row


def write_report(rows: Rows, output: Path) -> str:
    """The table of perplexities; pictures go beside the rows."""
    every = [{**row["point"], **row} for row in rows.latest()]
    lines = ["| text | model | perplexity | held out | seconds |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["text"] for row in every):
        mine = [row for row in every if row["text"] == name]
        floor = next((row["floor"] for row in mine if row.get("floor")), None)
        if floor is not None:
            lines.append(f"| {name} | (the text's own probabilities) | {floor:.2f} | | |")
        for row in mine:
            held = f"{row['held_out']:.2f}" if "held_out" in row else ""
            cells = f"{row['perplexity']:.2f} | {held} | {row.get('seconds', '')}"
            lines.append(f"| {name} | {model_name(row)} | {cells} |")
        if any(model_name(row) == "all three" for row in mine):
            _draw(name, mine, floor, output)
    text = "\n".join(lines) + "\n"
    (output / "report.md").write_text(text)
    return text


def model_name(row: dict[str, Any]) -> str:
    """What a row is of: a combination, and what stands beside it."""
    return str(row["model"]) + f" + {row.get('beside')}" * bool(row.get("beside"))


def _draw(name: str, rows: list[dict[str, Any]], floor: float | None, output: Path) -> None:
    stem = name.lower()
    figures = sorted(((model_name(row), row["perplexity"]) for row in rows), key=lambda own: own[1])
    save(perplexity_bars(figures, floor), output / f"{stem}-perplexity.png")
    for row in rows:
        if model_name(row) != "all three":
            continue
        nan = float("nan")
        history = [Row(int(i), value, nan, 1.0, int(i) + 1, 0.0) for i, value, *_ in row["curve"]]
        save(em_curve(history), output / f"{stem}-em.png")
        words = [[(word, p) for word, p in topic] for topic in row["topic_words"]]
        save(topic_bars(words, row["shares"]), output / f"{stem}-topics.png")


def topic_bars(topics: Sequence[Sequence[tuple[str, float]]], shares: Sequence[float]) -> Any:
    """A figure with a panel for each topic: its characteristic words and their probabilities."""
    figure, axes = panels(len(topics), width=2.4, height=3.6)
    for number, (axis, words) in enumerate(zip(axes, topics, strict=True)):
        _bars(axis, words, COLOURS[number % len(COLOURS)])
        axis.set_title(f"topic {number}: {shares[number]:.2f}")
        axis.tick_params(labelsize=7)
    return figure


def perplexity_bars(figures: Sequence[tuple[str, float]], floor: float | None = None) -> Any:
    """A figure of the perplexity of several models, with the least possible one as a line."""
    figure, (axis,) = panels(1, width=7.0, height=max(3.6, 0.6 + 0.2 * len(figures)))
    axis.bar_label(_bars(axis, figures, COLOURS[0]), fmt=" %.1f", fontsize=8)
    if floor is not None:
        axis.axvline(floor, color=COLOURS[1], linestyle="--", label="true entropy")
        axis.legend(frameon=False)
    axis.set_xlabel("perplexity per token")
    return figure


def _bars(axis: Any, values: Sequence[tuple[str, float]], colour: str) -> Any:
    """A bar for each name, the first on top."""
    names, lengths = zip(*reversed(values), strict=True)
    return axis.barh(names, lengths, color=colour)
