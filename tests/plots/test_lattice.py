"""Pictures are drawn of what they are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import MissingExtraError
from mrflearn.plots import figure
from mrflearn.plots.fields import draw_lattices, draw_recovery

EDGES = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])


def test_lattices_show_every_node_and_edge(tmp_path: Path) -> None:
    fields = {name: (np.linspace(-2, 2, 4), np.linspace(-1, 1, 4)) for name in ("a", "b")}
    drawn = draw_lattices(fields, EDGES, 2)
    axes = drawn.axes[:2]
    assert [axis.get_title() for axis in axes] == ["a", "b"]
    for axis in axes:
        lines, dots = axis.collections
        assert len(lines.get_segments()) == 4
        assert len(dots.get_offsets()) == 4
        assert lines.get_clim() == dots.get_clim() == (-2.0, 2.0)
    figure.save(drawn, tmp_path / "new" / "a.png")
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")


def test_recovery_has_a_legend_entry_for_every_estimate() -> None:
    truth = np.array([-1.0, 0.5])
    axis = draw_recovery(truth, {"ml": truth, "pl": truth + 0.1}).axes[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["ml", "pl"]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"mrflearn\[plots\]"):
        figure.panels(1)
