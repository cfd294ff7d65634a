"""Panels of curves: each has its own, and a name keeps its colour."""

from __future__ import annotations

from pathlib import Path

from mrflearn.plots.figure import save
from support.experiments import experiment_module


def test_each_panel_has_its_curves_and_names_keep_their_colours(tmp_path: Path) -> None:
    panels = experiment_module(".", "panels")
    Curve, Panel = panels.Curve, panels.Panel
    left = {"LAP": Curve([10, 100], [0.2, 0.1], [0.01, 0.02]), "PL": Curve([10, 100], [0.3, 0.1])}
    right = {"PL": Curve([10], [2.0])}
    figure = panels.draw_panels(
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
