"""Curves are drawn where they belong."""

from __future__ import annotations

from pathlib import Path

from mrflearn.plots.curves import draw_curves
from mrflearn.plots.figure import save


def test_every_curve_and_level_is_there(tmp_path: Path) -> None:
    curves = {f"curve {k}": ([1, 10, 100], [k, k + 1, k + 2]) for k in range(7)}
    figure = draw_curves(curves, across="steps", upward="nats", levels={"best": 5.0})
    (axis,) = figure.axes
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names == [*curves, "best"]
    assert list(axis.lines[3].get_ydata()) == [3, 4, 5]
    save(figure, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
