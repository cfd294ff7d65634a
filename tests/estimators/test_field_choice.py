"""The estimator that `auto` takes: one of each rule."""

from __future__ import annotations

import pytest

from mrflearn.estimators.field_choice import choose_estimator
from mrflearn.graph.builders import graph_from_text


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
