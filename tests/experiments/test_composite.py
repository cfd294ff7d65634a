"""The experiment of the composite model runs end to end at its smallest scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.experiments import run_experiment

pytest.importorskip("matplotlib")


def run(output: Path) -> str:
    return run_experiment("composite", "--scale", "smoke", "-o", str(output))


def test_every_combination_runs_once_and_a_second_run_only_reports(tmp_path: Path) -> None:
    run(tmp_path)
    rows = (tmp_path / "rows.jsonl").read_text()
    found = {}
    for row in map(json.loads, rows.splitlines()):
        beside = row["point"].get("beside")
        found[row["point"]["model"] + f" + {beside}" * bool(beside)] = row
    constant = [name for name in found if name.startswith("interpolation: ")]
    assert (len(found), len(constant)) == (28, 4)
    floor = found["trigram"]["floor"]
    assert all(row["perplexity"] > floor > 1 for row in found.values())
    trigram, plain = found["trigram"], found["Kneser-Ney 3-gram"]
    assert trigram["perplexity"] == pytest.approx(plain["perplexity"], rel=1e-4)
    assert found["Kneser-Ney 3-gram + cache"]["held_out"] <= plain["held_out"]
    everything = found["interpolation with cache: 5-gram + PCFG + PLSA"]
    assert everything["held_out"] <= found["Kneser-Ney 5-gram + cache"]["held_out"]
    assert found["interpolation: all three"]["held_out"] <= found["PCFG"]["held_out"]
    for name in constant:
        assert sum(found[name]["weights"][0]) == pytest.approx(1)
    for name in ("perplexity", "em", "topics"):
        assert (tmp_path / f"built-in-{name}.png").stat().st_size > 500
    run(tmp_path)
    assert (tmp_path / "rows.jsonl").read_text() == rows
