"""The experiments of piecewise training run end to end at their smallest scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.experiments import run_experiment

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2]


def run(output: Path, *options: str) -> list[dict]:
    """The rows that a run of the smallest scale leaves."""
    words = ("--scale", "smoke", "--output", str(output), "--threads", "1", *options)
    assert run_experiment("piecewise", *words).strip() == str(output / "report.md")
    return [json.loads(line) for line in (output / "rows.jsonl").read_text().splitlines()]


def test_synthetic_data_needs_no_files_and_a_rerun_measures_nothing(tmp_path: Path) -> None:
    rows = run(tmp_path, "--only", "hmm")
    assert {row["point"]["estimator"] for row in rows} == {"pl", "pw", "pwpl"}
    assert all(0.2 < row["state_accuracy"] < 1 for row in rows)  # five states: 0.2 is a guess
    told = (tmp_path / "report.md").read_text()
    assert "Figure 3: 2 generating models" in told
    assert "Figure 4" in told
    assert all((tmp_path / f"figure-{k}.png").stat().st_size > 500 for k in (3, 4))
    assert run(tmp_path, "--only", "hmm") == rows


FINALS = """
import sys
from pathlib import Path
from rows import Point, Rows
import strengths
rows = Rows(Path(sys.argv[1]))
for point in strengths.trials("tags"):
    near = abs(strengths.STRENGTHS.index(point.c2) - strengths.ESTIMATORS.index(point.estimator))
    rows.append(vars(point), {strengths.SCORE: 0.9 - 0.1 * near})
rows.append(vars(Point("tags", "ml", size=1911, c2=1.5)), {strengths.SCORE: 1.0})  # a test score
print(*(f"{p.estimator}:{p.draw}:{p.c2}" for p in strengths.finals(rows, "tags")))
"""


def test_priors_are_chosen_on_held_out_sentences_alone(tmp_path: Path) -> None:
    folders = [str(ROOT / part) for part in ("src", "experiments", "experiments/piecewise")]
    done = subprocess.run(
        [sys.executable, "-c", FINALS, str(tmp_path / "rows.jsonl")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        check=True,
        timeout=120,
    )
    best = ("ml:{}:0.005", "pwpl:{}:0.015", "pl:{}:0.05", "pw:{}:0.15")
    assert done.stdout.split() == [own.format(draw) for draw in range(5) for own in best]


@pytest.mark.data
def test_tables_are_made_of_real_text(tmp_path: Path, data_folder: Path) -> None:
    options = ("--only", "chunks-grmm", "pw,pl", "--data", str(data_folder))
    rows = run(tmp_path, *options)
    assert [row["point"]["estimator"] for row in rows] == ["pl", "pw"]
    assert all(row["train_sentences"] == 40 and row["pos_accuracy"] > 0.5 for row in rows)
    assert "as GRMM was measured" in (tmp_path / "report.md").read_text()


def test_the_table_of_the_guide_is_the_measured_one() -> None:
    measured = ROOT / "experiments" / "piecewise" / "results-guide" / "guide.md"
    page = ROOT / "docs" / "start" / "crf-estimators.md"
    assert measured.read_text().strip() in page.read_text()
