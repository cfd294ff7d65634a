"""What every page of a trained model begins with: the curve of its training."""

from __future__ import annotations

from collections.abc import Sequence

from mrflearn.plots.curves import draw_curves
from mrflearn.plots.page import Page
from mrflearn.training.outcome import Row


def add_training(page: Page, history: Sequence[Row], upward: str = "objective, nats") -> None:
    """The curve of training, where there were steps enough for one."""
    if len(history) < 2:
        return
    curves = {"training": ([row.evaluations for row in history], [row.value for row in history])}
    page.heading("Training")
    caption = "What training made small, after each pass over the data."
    page.picture(draw_curves(curves, across="evaluations", upward=upward), caption)
