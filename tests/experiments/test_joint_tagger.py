"""The experiment of the joint tagger runs end to end at its smallest scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.experiments import run_experiment

pytest.importorskip("matplotlib")


def run(output: Path) -> str:
    return run_experiment("joint_tagger", "--scale", "smoke", "--output", str(output))


def test_every_system_runs_once_and_a_second_run_only_reports(tmp_path: Path) -> None:
    run(tmp_path)
    text = (tmp_path / "rows.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == 8
    for row in rows:
        assert 0.5 < row["test"]["accuracy"] <= 1
    table = (tmp_path / "report.md").read_text()
    assert "| joint field, K = 2, L = 1, chains |" in table
    assert (tmp_path / "learning-curve.png").stat().st_size > 500
    run(tmp_path)
    assert (tmp_path / "rows.jsonl").read_text() == text
    assert (tmp_path / "report.md").read_text() == table
