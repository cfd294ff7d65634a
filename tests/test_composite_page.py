"""The start page of the composite model says what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "start" / "composite.md"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(PAGE), "exec"), {})
    told = capsys.readouterr().out.splitlines()
    assert float(told[0]) > 1
    assert told[2].startswith("(")
    assert (tmp_path / "composite-model" / "config.json").is_file()
