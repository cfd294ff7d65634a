"""The page on the estimators of CRFs runs as it stands, and its table is the measured one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "start" / "crf-estimators.md"


def test_everything_on_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    *rows, choice = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["ml", "pw", "pwpl", "pl"]
    assert all(float(row.split()[1]) > 0.8 for row in rows)
    assert choice.startswith("ml since")


def test_the_table_is_the_measured_one() -> None:
    measured = ROOT / "experiments" / "piecewise" / "results-guide" / "guide.md"
    assert measured.read_text().strip() in PAGE.read_text()
