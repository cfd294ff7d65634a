"""The page on taggers runs as it stands: its Python in order, then its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.command import run

PAGE = Path(__file__).parent.parent / "docs" / "start" / "tagger.md"


def test_everything_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    for name in ("second order", "first order", "joint field", "50 labelled sentences"):
        assert 0.5 < float(re.findall(rf"{name} (\S+)", printed)[0]) <= 1
    commands = re.findall(r"^\$ mrflearn (.*)$", text, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        found = run(*shlex.split(command))
        assert found.code == 0, found.err
        assert found.out
