"""What must work wherever the package is installed, the source tree out of sight.

`make wheel` runs this file against the built wheel; here it runs with all other tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mrflearn

TAGGED = "the DT\ndog NN\nbarks VBZ\n\na DT\ncat NN\nsleeps VBZ\n\n" * 3
TEXT = "the dog barks\na cat sleeps\nthe cat barks\n" * 5
SPINS = "0 1 1 0\n1 0 0 1\n0 0 1 1\n1 1 0 0\n" * 10


def run(*words: str, where: Path) -> str:
    """What a command prints; the environment decides which mrflearn it is."""
    answer = subprocess.run(
        [sys.executable, "-m", "mrflearn", *words],
        cwd=where,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_every_public_name_loads() -> None:
    for name in mrflearn.__all__:
        assert getattr(mrflearn, name) is not None


@pytest.mark.parametrize("name", ["data/english.pcfg", "data/english.lexicon", "serving/page.html"])
def test_the_files_that_are_not_python_came_along(name: str) -> None:
    assert files("mrflearn").joinpath(name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("noun", "text", "options"),
    [
        ("crf", TAGGED, ("--columns", "word,tag")),
        ("field", SPINS, ("--graph", "grid:2x2", "--l2", "0.1")),
        ("lm", TEXT, ("--context", "1", "--dims", "3", "--max-evaluations", "5")),
        ("ngram", TEXT, ("--order", "2")),
    ],
)
def test_models_are_trained_and_looked_at(
    noun: str, text: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text(text, encoding="utf-8")
    answer = json.loads(
        run("train", noun, "data.txt", *options, "-o", "model", "--json", where=tmp_path)
    )
    assert answer["model"] == "model"
    assert (tmp_path / "model" / "report.html").is_file()
    assert run("inspect", "model", where=tmp_path)
    assert mrflearn.load(tmp_path / "model") is not None
