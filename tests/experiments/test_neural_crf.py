"""The experiment of neural CRFs: what is known of a document, and how settings are chosen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from support.experiments import FOLDER, experiment_module


@pytest.fixture
def run() -> Iterator[Any]:
    places = [str(FOLDER / "neural_crf"), str(FOLDER)]
    with patch.object(sys, "path", [*places, *sys.path]):
        yield experiment_module("neural_crf", "run")
    for name in ("run", "tasks", "results"):  # other experiments have modules of these names
        sys.modules.pop(name, None)


def test_a_document_says_how_words_are_written_and_first_mentioned() -> None:
    tasks = experiment_module("neural_crf", "tasks")
    document = [("Then", "John", "Smith", "left"), ("Smith", "then", "won"), ("SMITH", "WON")]
    rows = tasks.in_document(document)
    assert rows[0][0] == ("Then", "low", "-", "-")
    assert rows[0][2] == ("Smith", "cap", "-", "-")
    assert rows[1][0] == ("Smith", "cap", "John", "left")
    assert rows[2][0] == ("SMITH", "cap", "John", "left")
    assert rows[2][1] == ("WON", "low", "-", "-")
    items = tasks.features(rows[1])
    assert {"0@w=Smith", "0@doc-=John", "1@w=then", "0,1@Smith|then", "-1@end"} <= set(items[0])


def test_the_best_settings_at_the_end_are_measured(run: Any, tmp_path: Path) -> None:
    rows = run.Rows(tmp_path / "rows.jsonl")
    assert run.best("names", rows) == ("usual", {})
    curves = {"usual": [0.5, 0.8, 0.8], "slow": [0.1, 0.9, None], "words alone": [0.9, 0.1, 0.1]}
    for point in run.plan("choose", ["names"], 1, rows):
        if point["name"] in curves:
            rows.append(point, {"curve": curves[point["name"]]})
    name, settings = run.best("names", rows)
    assert (name, settings) == ("usual", {})
    rows.append(run.plan("choose", ["names"], 1, rows)[0], {"curve": [0.4]})
    assert run.best("names", rows)[0] == "slow"
    assert [p["seed"] for p in run.plan("measure", ["names"], 2, rows)] == [0, 1]
