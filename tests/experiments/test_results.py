"""Rows of results outlive the run that made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.experiments import experiment_module

Rows = experiment_module("", "results").Rows


def test_a_rerun_knows_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    rows = Rows(path)
    assert list(rows) == []
    point = {"task": "grid", "size": 3, "limit": None}
    assert point not in rows
    rows.append(point, {"seconds": 1.5})
    again = Rows(path)
    assert point in again
    assert {**point, "size": 4} not in again
    (row,) = again
    assert row["point"] == point
    assert row["seconds"] == 1.5
    assert row["versions"]["torch"]


def test_the_last_row_of_a_point_counts(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.jsonl")
    for size, seconds in ((1, 10), (2, 20), (1, 30)):
        rows.append({"task": "grid", "size": size}, {"seconds": seconds})
    rows.append({"task": "cube", "size": 1}, {"seconds": 40})
    assert [row["seconds"] for row in rows.latest()] == [30, 20, 40]
    assert [row["seconds"] for row in rows.latest(task="grid")] == [30, 20]
    assert rows.latest(task="grid", size=2)[0]["seconds"] == 20
    assert len(list(rows)) == 4  # nothing is deleted


@pytest.mark.parametrize(("said", "commit"), [("$Format:%h$", None), ("0123abcd", "0123abcd")])
def test_without_git_the_commit_is_what_an_archive_says(
    said: str, commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    fresh = experiment_module("", "results")  # which has not asked git yet
    (tmp_path / "COMMIT").write_text(f"{said}\n", encoding="utf-8")
    monkeypatch.setattr(fresh, "HERE", tmp_path)
    row = fresh.Rows(tmp_path / "rows.jsonl").append({"task": "grid"}, {})
    assert row["commit"] == commit
