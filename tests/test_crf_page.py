"""The page on chain CRFs runs as it stands: its Python in order, then its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.command import run

PAGE = Path(__file__).parent.parent / "docs" / "start" / "crf.md"


def test_everything_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    before = float(re.findall(r"calibration error (\S+)", printed)[0])
    after = float(re.findall(r"after calibration (\S+)", printed)[0])
    assert 0 <= after < 0.1
    assert 0 <= before < 0.1
    commands = re.findall(r"^\$ mrflearn (.*)$", text, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        found = run(*shlex.split(command))
        assert found.code == 0, found.err
        assert found.out
