"""The experiment of the composite model runs end to end at its smallest scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2]


def run(output: Path) -> str:
    script = ROOT / "experiments" / "composite" / "run.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), "--scale", "smoke", "-o", str(output)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_combination_runs_once_and_a_second_run_only_reports(tmp_path: Path) -> None:
    run(tmp_path)
    rows = (tmp_path / "rows.jsonl").read_text()
    found = {r["point"]["model"]: r for r in map(json.loads, rows.splitlines())}
    mixed = [name for name in found if name.startswith("interpolation")]
    assert (len(found), len(mixed)) == (13, 4)
    assert all(row["perplexity"] > row["floor"] > 1 for row in found.values())
    trigram, plain = found["trigram"], found["Kneser-Ney 3-gram"]
    assert trigram["perplexity"] == pytest.approx(plain["perplexity"], rel=1e-4)
    for name in mixed:
        assert sum(found[name]["weights"].values()) == pytest.approx(1)
    for name in ("perplexity", "em", "topics"):
        assert (tmp_path / f"built-in-{name}.png").stat().st_size > 500
    run(tmp_path)
    assert (tmp_path / "rows.jsonl").read_text() == rows
