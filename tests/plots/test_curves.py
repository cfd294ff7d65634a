"""Curves are drawn where they belong."""

from __future__ import annotations

from pathlib import Path

from mrflearn.plots.curves import Curve, Panel, draw_curves, draw_panels
from mrflearn.plots.figure import save


def test_each_panel_has_its_curves_and_names_keep_their_colours(tmp_path: Path) -> None:
    left = {"LAP": Curve([10, 100], [0.2, 0.1], [0.01, 0.02]), "PL": Curve([10, 100], [0.3, 0.1])}
    right = {"PL": Curve([10], [2.0])}
    figure = draw_panels(
        [Panel("error", "samples", "error", left), Panel("time", "cliques", "s", right)]
    )
    one, two = figure.axes
    assert (one.get_title(), two.get_xlabel()) == ("error", "cliques")
    assert one.get_xscale() == one.get_yscale() == "log"
    assert [text.get_text() for text in one.get_legend().get_texts()] == ["LAP", "PL"]
    colours = [[c.lines[0].get_color() for c in axis.containers] for axis in (one, two)]
    assert colours[0][1] == colours[1][0] != colours[0][0]
    save(figure, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_every_curve_and_level_is_there(tmp_path: Path) -> None:
    curves = {f"curve {k}": ([1, 10, 100], [k, k + 1, k + 2]) for k in range(7)}
    figure = draw_curves(
        curves, across="steps", upward="nats", levels={"best": 5.0}, logarithmic=True
    )
    (axis,) = figure.axes
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names == [*curves, "best"]
    assert list(axis.lines[3].get_ydata()) == [3, 4, 5]
    assert axis.get_xscale() == "log"
    save(figure, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
