"""The page on CRFs beyond chains runs as it stands: its Python in order, then its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.command import run

PAGE = Path(__file__).parent.parent / "docs" / "start" / "graph-crf.md"


def test_everything_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert float(re.findall(r"right in both: (\S+)", printed)[0]) > 0.8
    assert "['O', 'O', 'S', 'S', 'O', 'O', 'O', 'S', 'O']" in printed
    assert printed.splitlines()[-1].startswith("{0: 'left', 1: 'left', 2: 'left', 3: 'right'")
    commands = re.findall(r"^\$ mrflearn (.*)$", text, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        found = run(*shlex.split(command))
        assert found.code == 0, found.err
        assert found.out
