"""What `train` offers is what estimators take: the table of options, help, start-up."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mrflearn.cli.main import app
from mrflearn.cli.options import TABLE, of_estimators
from support.command import run
from support.option_table import EXCLUDED, TRAINED, written

VERBS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
COMMANDS: dict[str, Any] = VERBS["train"].commands
HEAVY = ("torch", "scipy", "sklearn", "pandas", "matplotlib")


def test_the_table_is_that_of_the_estimators() -> None:
    assert TABLE.read_text(encoding="utf-8") == written(), "make options writes it"


def test_every_noun_is_in_the_table() -> None:
    assert COMMANDS.keys() == TRAINED.keys()


def test_arguments_left_out_exist() -> None:
    taken = {
        name
        for kinds in TRAINED.values()
        for own in kinds.values()
        for name in inspect.signature(own).parameters
    }
    assert EXCLUDED.keys() <= taken


@pytest.mark.parametrize("noun", TRAINED)
def test_help_lists_each_argument_once_with_its_docstring(
    noun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    shown = " ".join(run("train", noun, "--help").out.split())
    options = [name for own in COMMANDS[noun].params for name in own.opts + own.secondary_opts]
    assert len(options) == len(set(options))
    for name, (_, names, text, _) in of_estimators(noun).items():
        (own,) = (own for own in COMMANDS[noun].params if own.name == name)
        assert own.opts == names
        assert own.default is None  # the estimator's own default holds
        assert own.help == text
        first = text.partition("  [")[0]
        assert first in shown or len(first) > 60, text


@pytest.mark.parametrize("noun", TRAINED)
def test_what_fit_can_do_is_offered(noun: str) -> None:
    options = {own.name for own in COMMANDS[noun].params}
    for estimator in TRAINED[noun].values():
        fit = inspect.signature(estimator.fit).parameters
        offered = {"validation", "checkpoint", "resume"} & fit.keys()
        offered |= {"engine", "master"} if "executor" in fit else set()
        assert offered <= options


# Python's names of one thing: a seed, columns to learn, columns to read.
SYNONYMS = {"seed": "random_state", "tags": "labels", "keep": "columns"}


def test_an_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for command in [*VERBS.values(), *COMMANDS.values()]:
        for own in command.params:
            for option in own.opts if own.param_type_name == "option" else ():
                meanings[option].add(SYNONYMS.get(own.name, own.name))
    assert not {option: names for option, names in meanings.items() if len(names) > 1}


@pytest.mark.parametrize("width", [80, 120])
def test_help_is_in_groups_and_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("train", "crf", "--help").out
    headings = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert headings == ["Arguments", "Data", "Output", "Model", "Optimisation", "Running"]
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--dims", "x"), "'x' is no whole number"),
        (("--dims", "-1"), "not below 0"),
        (("--l2", "nan"), "not below 0"),
        (("--weights", "a,b"), "is no numbers or validation"),
        (("--bound", "ropes"), "--bound"),
    ],
)
def test_values_of_the_wrong_kind_are_wrong_usage(
    option: tuple[str, str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a b\n")
    found = run("train", "lm", str(tmp_path / "text"), "-o", str(tmp_path / "m"), *option)
    assert (found.code, says in found.err) == (2, True), found.err


def test_none_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\nb a a\n")
    words = ("train", "ngram", str(tmp_path / "text"), "-o", str(tmp_path / "m"))
    assert run(*words, "--vocabulary-size", "none").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--help",), 0),
        (("train", "--help"), 0),
        (("train", "crf", "--help"), 0),
        (("train", "crf", "MISSING", "-o", "NEW"), 1),
        (("train", "crf", "FILE", "-o", "FILE"), 1),
        (("train", "crf", "FILE", "-o", "MODEL"), 1),
        (("train", "lm", "FILE", "--validation", "MISSING", "-o", "NEW"), 1),
        (("train", "lm", "FILE", "-o", "NEW", "--dims", "many"), 2),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(
    words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    (tmp_path / "FILE").write_text("a b\n")
    (tmp_path / "MODEL").mkdir()
    (tmp_path / "MODEL" / "config.json").write_text('{"format": "mrflearn model"}')
    command = [sys.executable, "-X", "importtime", "-m", "mrflearn", *words]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True)
    assert found.returncode == code
    imported = set(re.findall(r"\|\s+(\S+)$", found.stderr, re.MULTILINE))
    assert "mrflearn.cli.main" in imported
    assert not imported & {*HEAVY}


def test_shells_can_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MRFLEARN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "mrflearn train lm --bound ")
    monkeypatch.setenv("COMP_CWORD", "4")
    found = run()
    assert found.out.split() == ["stars", "chains", "windows"]
