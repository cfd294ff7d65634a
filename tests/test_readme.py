"""What the README and the pages of the documentation show, runs: Python first, then commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import run

ROOT = Path(__file__).parent.parent
SHOWN = ("start", "flow", "extend", "reference", "migrate")
NO_CODE = {"index.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *(
        page
        for folder in SHOWN
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
        if page.name not in NO_CODE
    ),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ITERATIONS = re.compile(r"(max_iterations=|--max-iterations )\d\d+")
COMMAND = re.compile(r"^\$ mrflearn (.*)$", re.MULTILINE)


def number(name: str, printed: str) -> float:
    """The number that was printed behind these words."""
    return float(re.findall(rf"{name} (\S+)", printed)[0])


def check_readme(printed: str) -> None:
    shown = printed.splitlines()
    assert shown[0] == "[0 1]"
    assert shown[2] == "(2, 9)"


def check_crf(printed: str) -> None:
    assert 0 <= number("calibration error", printed) < 0.1
    assert 0 <= number("after calibration", printed) < 0.1


def check_graph_crf(printed: str) -> None:
    assert number("right in both:", printed) > 0.8
    assert "['O', 'O', 'S', 'S', 'O', 'O', 'O', 'S', 'O']" in printed
    assert printed.splitlines()[-1].startswith("{0: 'left', 1: 'left', 2: 'left', 3: 'right'")


def check_crf_estimators(printed: str) -> None:
    *rows, choice = printed.splitlines()
    assert [row.split()[0] for row in rows] == ["ml", "pw", "pwpl", "pl"]
    assert all(float(row.split()[1]) > 0.8 for row in rows)
    assert choice.startswith("ml since")


def check_tagger(printed: str) -> None:
    for name in ("second order", "first order", "joint field", "50 labelled sentences"):
        assert 0.5 < number(name, printed) <= 1


def check_composite(printed: str) -> None:
    told = printed.splitlines()
    assert float(told[0]) > 1
    assert told[2].startswith("(")


# What a page says of its results must hold; what others print is only printed.
CHECKS: dict[str, Callable[[str], None]] = {
    "README.md": check_readme,
    "index.md": check_readme,
    "crf.md": check_crf,
    "crf-estimators.md": check_crf_estimators,
    "graph-crf.md": check_graph_crf,
    "tagger.md": check_tagger,
    "composite.md": check_composite,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_everything_on_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = ITERATIONS.sub(r"\g<1>15", page.read_text(encoding="utf-8"))
    blocks = BLOCK.findall(text)
    assert blocks, f"{page.name} shows no Python"
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    CHECKS.get(page.name, str)(capsys.readouterr().out)
    for command in COMMAND.findall(text):
        found = run(*shlex.split(command))
        assert found.code == 0, found.err
        assert found.out


def test_every_check_has_its_page_and_commands_are_shown() -> None:
    assert CHECKS.keys() <= {page.name for page in PAGES}
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert len(COMMAND.findall(shown)) >= 20


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert target.startswith("http") or (ROOT / target).exists(), target
