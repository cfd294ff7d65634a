"""Pictures of reliability show the numbers they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.evaluation.calibration import reliability
from mrflearn.plots.figure import save
from mrflearn.plots.labels import draw_reliability


def test_a_panel_shows_the_accuracy_of_each_full_bin(tmp_path: Path) -> None:
    table = reliability([0.2, 0.2, 0.9], [False, True, True], bins=5)
    figure = draw_reliability({"before": table, "after": table})
    assert [axis.get_title().splitlines()[0] for axis in figure.axes] == ["before", "after"]
    accuracy, share = figure.axes[0].containers
    assert [bar.get_height() for bar in accuracy] == [0.5, 1.0]
    assert [bar.get_height() for bar in share] == pytest.approx([2 / 3, 1 / 3])
    assert f"{100 * table.expected_error:.2f} %" in figure.axes[1].get_title()
    save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
