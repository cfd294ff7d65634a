"""Verbs, exit codes, version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mrflearn
from mrflearn import load
from mrflearn.cli.main import app
from mrflearn.cli.train import app as nouns
from support.command import run

VERBS = ["demo", "score", "evaluate", "tag", "sample", "inspect", "fill", "neighbors", "parse"]
VERBS += ["next-word", "serve", "infer", "convert"]
NOUNS = ["composite", "crf", "field", "hmm", "lm", "ngram", "pcfg", "tagger", "vectors"]
COMMANDS = [[verb] for verb in VERBS] + [["train", noun] for noun in NOUNS]


def test_these_are_all_commands() -> None:
    assert sorted(info.name or "" for info in app.registered_commands) == sorted(VERBS)
    assert sorted(info.name or "" for info in nouns.registered_commands) == NOUNS


def test_version() -> None:
    assert run("--version").out == f"mrflearn {mrflearn.__version__}\n"


def test_wrong_usage_is_exit_code_2() -> None:
    for words in (["teapot"], ["infer"], ["infer", "x", "--method", "magic"], ["--teapot"]):
        assert run(*words).code == 2


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_verb_has_help_with_an_example(words: list[str]) -> None:
    found = run(*words, "--help")
    assert found.code == 0
    assert "Example: mrflearn" in found.out


def test_the_module_is_the_command_and_survives_a_closed_pipe(tmp_path: Path) -> None:
    command = f"{sys.executable} -m mrflearn --help | head -n 1"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in found.stderr


def test_the_demo_runs(tmp_path: Path) -> None:
    found = run("demo", "-o", str(tmp_path / "out"))
    assert found.code == 0, found.err
    assert "held-out nats" in found.out
    made = {path.name for path in (tmp_path / "out").iterdir()}
    models = {"composite-model", "grid-model", "language-model", "tagger"}
    assert made == {*models, "report.html"}
    for name in models:
        assert load(tmp_path / "out" / name) is not None
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 7


@pytest.mark.parametrize("noun", NOUNS)
def test_an_output_that_is_no_model_is_refused_before_anything_is_read(
    noun: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    found = run("train", noun, str(tmp_path / "absent.txt"), "-o", str(tmp_path / "notes.txt"))
    assert found.code == 1
    assert "is left alone" in found.err
    assert len(found.err.splitlines()) == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"
