"""Complaints speak of options, not of Python's arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.cli.main import in_own_words
from support.command import run

OPTIONS = {"c1": "--c1", "algorithm": "--algorithm", "n_jobs": "--jobs", "max_size": "--max-size"}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("c1=0.5 (L1) needs algorithm='lbfgs'.", "--c1 0.5 (L1) needs --algorithm lbfgs."),
        ("n_jobs=-1: none.", "--jobs -1: none."),
        ('max_size="two words"', "--max-size two words"),
        ("try max_size=3.", "try --max-size 3."),
        ("give max_size=...", "give --max-size ..."),
        ("try max_size=True.", "try --max-size."),
        ("weights=3, a == b, x=", "weights=3, a == b, x="),
    ],
)
def test_settings_become_options(message: str, told: str) -> None:
    assert in_own_words(message, OPTIONS) == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["crf", "--algorithm", "l2sgd", "--c1", "1"], "--c1 1.0 (L1) needs --algorithm lbfgs"),
        (["lm", "--weights", "validation", "-q"], "--weights validation needs a validation text"),
    ],
)
def test_commands_speak_their_own_words(tmp_path: Path, words: list[str], told: str) -> None:
    file = tmp_path / "file.txt"
    file.write_text("a X\nb Y\n\nb Y\na X\n")
    noun, *rest = words
    found = run("train", noun, str(file), *rest, "-o", str(tmp_path / "model"))
    assert found.code == 1
    assert told in found.err
    assert len(found.err.splitlines()) == 1
