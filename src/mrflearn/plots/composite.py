"""Pictures of a composite language model: how EM rose, its topics, its grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrflearn.plots.figure import COLOURS, panels
from mrflearn.training.outcome import Row


def em_curve(history: Sequence[Row]) -> Any:
    """A figure of the log-likelihood of the training text against steps of EM.

    A new line begins where weights of levels had their turn: between lines it may fall.
    """
    figure, (axes,) = panels(1, width=5.0)
    rounds: list[list[Row]] = []
    for row in history:
        if row.iteration == 0:
            rounds.append([])
        rounds[-1].append(row)
    step = 0
    for number, rows in enumerate(rounds):
        places = range(step, step + len(rows))
        colour = COLOURS[number % len(COLOURS)]
        values = [-row.value for row in rows]
        axes.plot(places, values, marker="o", color=colour, label=f"round {number + 1}")
        step += len(rows)
    axes.set_xlabel("steps of EM")
    axes.set_ylabel("log-likelihood, nats")
    axes.legend(frameon=False)
    return figure


def topic_bars(topics: Sequence[Sequence[tuple[str, float]]], shares: Sequence[float]) -> Any:
    """A figure with a panel for each topic: its most telling words and their probabilities."""
    figure, axes = panels(len(topics), width=2.4, height=3.6)
    for number, (axis, words) in enumerate(zip(axes, topics, strict=True)):
        names = [word for word, _ in reversed(words)]
        axis.barh(names, [p for _, p in reversed(words)], color=COLOURS[number % len(COLOURS)])
        axis.set_title(f"topic {number}: {shares[number]:.2f}")
        axis.tick_params(labelsize=7)
    return figure


def perplexity_bars(figures: Sequence[tuple[str, float]], floor: float | None = None) -> Any:
    """A figure of the perplexity of several models, with the least possible one as a line."""
    figure, (axes,) = panels(1, width=6.0)
    names = [name for name, _ in reversed(figures)]
    axes.barh(names, [value for _, value in reversed(figures)], color=COLOURS[0])
    for place, (_, value) in enumerate(reversed(figures)):
        axes.annotate(f" {value:.1f}", (value, place), va="center", fontsize=8)
    if floor is not None:
        axes.axvline(floor, color=COLOURS[1], linestyle="--", label="true entropy")
        axes.legend(frameon=False)
    axes.set_xlabel("perplexity per token")
    return figure
