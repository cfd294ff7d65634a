"""The scripts of the gallery run, and draw the pictures that their pages show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_and_draws_its_pictures(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="figures need the extra plots")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    shown = re.findall(r"pictures/gallery/([\w-]+\.png)", script.read_text(encoding="utf-8"))
    assert shown
    assert sorted(path.name for path in tmp_path.glob("*.png")) == sorted(shown)
    assert all((DOCS / "pictures" / "gallery" / name).exists() for name in shown)


def test_every_script_is_in_the_index() -> None:
    index = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) == 10
    assert all(f"({script.stem}.md)" in index for script in SCRIPTS)
