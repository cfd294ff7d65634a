"""The experiments of the lifted language model run end to end at their smallest scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.experiments import run_experiment

pytest.importorskip("matplotlib")


def run(output: Path) -> str:
    return run_experiment("lifted_lm", "--scale", "smoke", "-o", str(output), "--threads", "1")


def test_every_part_runs_once_and_a_second_run_only_reports(tmp_path: Path) -> None:
    first = run(tmp_path)
    rows = (tmp_path / "rows.jsonl").read_text()
    parts = {json.loads(line)["point"]["part"] for line in rows.splitlines()}
    assert parts == {
        "figure 5", "figure 6", "vectors", "gaps", "best bound, candidates", "best bound", "sizes",
        "trigrams, candidates", "trigrams", "trigrams, rivals",
        "trigrams, candidates on validation", "trigrams, by validation", "appendix B",
    }  # fmt: skip
    for name in ("figure5.png", "figure6.png", "figure6-full-rank.png", "report.md"):
        assert (tmp_path / name).stat().st_size > 500
    assert run(tmp_path) == first
    assert (tmp_path / "rows.jsonl").read_text() == rows
    _check_claims([json.loads(line) for line in rows.splitlines()])


def _check_claims(rows: list[dict]) -> None:
    """What must hold at any scale: a bound lies below, and exact training is best."""
    (curves,) = (row["figures"] for row in rows if row["point"]["part"] == "figure 5")
    assert curves["bound"][-1] < curves["exact_of_lifted"][-1] <= curves["exact"][-1] + 1e-6
    for row in rows:
        seen = [value for _, value in row["figures"].get("curve", [])]
        assert not seen or row["figures"]["valid"] <= max(seen) + 0.01
