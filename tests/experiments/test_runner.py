"""The command line of experiments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from support.experiments import experiment_module

runner = experiment_module("", "runner")


def measured(names: Sequence[str], share: str, folder: Path) -> list[str]:
    """The points that one of several processes takes for its own."""
    jobs = [runner.Job({"name": name}, lambda: {"value": 1}) for name in names]
    experiment = runner.Experiment(lambda request: jobs, lambda rows, folder: None)
    words = ["run.py", "--share", share, "-o", str(folder), "--threads", "1"]
    with patch.object(sys, "argv", words):
        runner.main(experiment, folder, "about")
    if not (folder / "rows.jsonl").exists():
        return []
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["point"]["name"] for line in lines]


@pytest.mark.parametrize("of", [2, 3])
def test_every_point_has_one_process_whatever_else_there_is(of: int, tmp_path: Path) -> None:
    """Rows that others write meanwhile may make further points worth measuring."""
    found = []
    for own in range(1, of + 1):
        more = ["further"] * (own > 1)
        found += measured([*more, *"abcdefgh"], f"{own}/{of}", tmp_path / str(own))
    assert sorted(set(found) | {"further"}) == sorted([*"abcdefgh", "further"])
    assert len(found) == len(set(found))
