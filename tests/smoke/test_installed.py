"""What must work wherever the package is installed, the source tree out of sight.

`make wheel` runs this file against the built wheel; `make test` leaves it out.
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


# One process for all commands: importing torch takes longer than the work.
RUNNER = """
import json, sys
from mrflearn.cli.main import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["mrflearn", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
"""


def run(*commands: list[str], where: Path) -> str:
    """What commands print; the environment decides which mrflearn it is."""
    answer = subprocess.run(
        [sys.executable, "-c", RUNNER, json.dumps(commands)],
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


@pytest.mark.parametrize(
    "name",
    [
        "datasets/english.pcfg",
        "datasets/english.lexicon",
        "serving/tasks.toml",
        "serving/page.html",
    ],
)
def test_the_files_that_are_not_python_came_along(name: str) -> None:
    assert files("mrflearn").joinpath(name).read_text(encoding="utf-8")


TRAINED = {
    "crf": (TAGGED, "--columns", "word,tag"),
    "field": (SPINS, "--graph", "grid:2x2", "--l2", "0.1"),
    "lm": (TEXT, "--context", "1", "--dims", "3", "--max-iterations", "5"),
    "ngram": (TEXT, "--order", "2"),
}


def test_the_package_is_a_command(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "mrflearn", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.stdout == f"mrflearn {mrflearn.__version__}\n"


def test_models_are_trained_and_looked_at(tmp_path: Path) -> None:
    commands = []
    for noun, (text, *options) in TRAINED.items():
        (tmp_path / f"{noun}.txt").write_text(text, encoding="utf-8")
        commands.append(["train", noun, f"{noun}.txt", *options, "-o", noun, "--json"])
        commands.append(["inspect", noun, "--json"])
    answers = [json.loads(line) for line in run(*commands, where=tmp_path).splitlines()]
    assert len(answers) == len(commands)
    assert [answer["model"] for answer in answers[::2]] == list(TRAINED)
    for noun in TRAINED:
        assert (tmp_path / noun / "report.html").is_file()
        assert mrflearn.load(tmp_path / noun) is not None
