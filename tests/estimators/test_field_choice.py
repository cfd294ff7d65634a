"""The estimator that `auto` takes: one of each rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn import MarkovField
from mrflearn.estimators.field import choose_estimator
from mrflearn.graph.builders import graph_from_text
from support.command import run


@pytest.mark.parametrize(
    ("graph", "missing", "estimator"),
    [
        ("grid:4x4", True, "lap"),
        ("grid:4x100", False, "ml"),
        ("complete:12", False, "ml"),
        ("grid:40x40", False, "pl"),
        ("complete:60", False, "pl"),
        ("grid:100x100", False, "lap"),
        ("complete:250", False, "pl"),  # many cliques, but far too many neighbours for lap
    ],
)
def test_each_rule(graph: str, missing: bool, estimator: str) -> None:
    choice = choose_estimator(graph_from_text(graph), missing=missing)
    assert choice.estimator == estimator
    assert choice.reason


def test_counts_alone_are_for_those_that_need_no_samples() -> None:
    assert choose_estimator(graph_from_text("grid:40x40"), counts_alone=True).estimator == "lap"
    assert choose_estimator(graph_from_text("grid:4x40"), counts_alone=True).estimator == "ml"


def test_auto_learns_what_the_chosen_one_learns() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 6))
    auto = MarkovField("grid:2x3", estimator="auto").fit(rows)
    assert auto.choice_.estimator == "ml"
    exact = MarkovField("grid:2x3", estimator="ml").fit(rows)
    assert auto.couplings_ == pytest.approx(exact.couplings_)
    holes = rows.astype(float)
    holes[0, 0] = np.nan
    assert MarkovField("grid:2x3", estimator="auto", l2=0.1).fit(holes).choice_.estimator == "lap"


def test_the_command_line_says_what_was_chosen_and_why(tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    np.savetxt(file, np.random.default_rng(0).integers(0, 2, (100, 4)), fmt="%d")
    model = str(tmp_path / "model")
    words = ["--graph", "grid:2x2", "--estimator", "auto", "-o", model, "--json"]
    found = run("train", "field", str(file), *words)
    assert found.json()["estimator"] == "ml"
    assert "--estimator auto: ml, since the graph is narrow enough" in found.err
