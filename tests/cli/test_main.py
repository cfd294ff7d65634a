"""Verbs, exit codes, version."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import mrflearn
from mrflearn import LanguageModel, examples, load
from mrflearn.cli import demo
from mrflearn.cli.main import app
from mrflearn.models.storage import StoredModel, write_model
from support.command import run

VERBS = ["demo", "score", "evaluate", "tag", "sample", "inspect", "fill", "neighbors", "parse"]
VERBS += ["next-word", "serve", "infer", "count", "convert"]
ALIKE = ["--device", "--quiet", "--json", "--engine", "--master", "--resume", "--checkpoint"]
ALIKE += ["--overwrite", "--molecule", "--drop-inserts"]
NOUNS = ["composite", "crf", "field", "graph", "hmm", "lm", "neural", "ngram"]
NOUNS += ["pcfg", "tagger", "vectors"]


def commands(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    """(words, command) of every command below a group."""
    for name, own in group.commands.items():
        if hasattr(own, "commands"):
            yield from commands(own, *before, name)
        else:
            yield " ".join([*before, name]), own


COMMANDS = dict(commands(get_command(app)))


def option(command: Any, name: str) -> Any:
    """The option of that name, or None."""
    return next((own for own in command.params if name in own.opts), None)


def test_these_are_all_commands() -> None:
    assert sorted(COMMANDS) == sorted([*VERBS, *(f"train {noun}" for noun in NOUNS)])


def test_version() -> None:
    assert run("--version").out == f"mrflearn {mrflearn.__version__}\n"


def test_wrong_usage_is_exit_code_2() -> None:
    for words in (["teapot"], ["infer"], ["infer", "x", "--method", "magic"], ["--teapot"]):
        assert run(*words).code == 2


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_with_an_example(words: str) -> None:
    found = run(*words.split(), "--help")
    assert found.code == 0
    assert f"Example: mrflearn {words}" in found.out


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_is_told_in_a_sentence(words: str) -> None:
    for own in COMMANDS[words].params:
        assert own.help, own.name
        told, _, default = own.help.partition("  [")  # as help shows it
        assert told.endswith((".", "...")), own.help
        assert not default or default.endswith("]")


@pytest.mark.parametrize("name", ALIKE)
def test_an_option_says_the_same_in_every_command(name: str) -> None:
    found = [own for command in COMMANDS.values() if (own := option(command, name))]
    assert len(found) > 1
    assert len({(own.help, *own.opts) for own in found}) == 1


def test_all_that_train_have_these_options_and_end_alike() -> None:
    for noun in NOUNS:
        command = COMMANDS[f"train {noun}"]
        assert option(command, "-o").help == "The model directory to write."
        assert option(command, "--overwrite") is not None
        assert [own.opts[0] for own in command.params[-2:]] == ["--quiet", "--json"]


@pytest.mark.parametrize(
    "words", [words for words, own in COMMANDS.items() if option(own, "--engine")]
)
def test_a_cluster_has_its_own_cores(words: str, tmp_path: Path) -> None:
    file = tmp_path / "some.txt"
    file.write_text("0 1\n1 0\n")
    engine = ("--engine", "spark", "--master", "local[2]", "--jobs", "2")
    found = run(*words.split(), str(file), "-o", str(tmp_path / "new.moments"), *engine)
    assert found.code == 2
    assert "on Spark the cluster has its own cores" in found.err


@pytest.mark.parametrize("words", [words for words, own in COMMANDS.items() if option(own, "-j")])
def test_jobs_are_a_number_of_cores(words: str) -> None:
    for jobs in ("0", "-2"):
        found = run(*words.split(), "absent.txt", "-o", "absent.moments", "--jobs", jobs)
        assert found.code == 2
        assert f"{jobs}: needs a positive number of cores" in found.err


def test_pictures_are_drawn_and_held_out_data_is_named_alike() -> None:
    for command in COMMANDS.values():
        plot, held_out = option(command, "--plot"), option(command, "--validation")
        assert plot is None or plot.help.startswith("Draw ")
        assert held_out is None or " to " in held_out.help


def test_the_module_is_the_command_and_survives_a_closed_pipe(tmp_path: Path) -> None:
    command = f"{sys.executable} -m mrflearn --help | head -n 1"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in found.stderr


def test_the_demo_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The whole flow, from less data and in fewer iterations.
    smaller = {"LESSONS": 8, "TESTS": 2, "MOST_WORDS": 9, "WORDS": 300, "PACKAGES": ("numpy",)}
    smaller |= {"BIG_SIDE": 6, "TRAIN": 2_000, "HELD_OUT": 500}
    for name, value in smaller.items():
        monkeypatch.setattr(examples, name, value)
    fit = LanguageModel.fit

    def briefly(model: LanguageModel, *text: Any, **more: Any) -> LanguageModel:
        return fit(model.set_params(max_iterations=5), *text, **more)

    monkeypatch.setattr(LanguageModel, "fit", briefly)
    found = run("demo", "-o", str(tmp_path / "out"))
    assert found.code == 0, found.err
    assert "held-out nats" in found.out
    monkeypatch.setattr(demo, "STEPS", dict(list(demo.STEPS.items())[:2]))
    steps = [
        json.loads(line) for line in run("demo", "-o", str(tmp_path), "--json").out.split("\n")[:-1]
    ]
    assert [step["title"] for step in steps] == list(demo.STEPS)
    assert steps[1]["estimators"][0]["estimator"] == "pseudolikelihood"
    made = {path.name for path in (tmp_path / "out").iterdir()}
    models = {"composite-model", "grid-model", "language-model", "tagger"}
    assert made == {*models, "report.html"}
    for name in models:
        assert load(tmp_path / "out" / name) is not None
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 10


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


@pytest.mark.parametrize("noun", NOUNS)
def test_a_model_is_replaced_only_when_told_to(noun: str, tmp_path: Path) -> None:
    write_model(tmp_path / "m", StoredModel("Example", {}, {}))
    before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    words = ("train", noun, str(tmp_path / "absent"), "-o", str(tmp_path / "m"))
    refused = run(*words)
    assert (refused.code, "--overwrite" in refused.err) == (1, True)
    assert "absent" not in refused.err  # the data have not been looked at yet
    assert "absent" in run(*words, "--overwrite").err
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    (tmp_path / "m" / "config.json").write_text("{}")
    foreign = run(*words, "--overwrite")
    assert (foreign.code, "left alone" in foreign.err) == (1, True)


def test_a_model_is_overwritten_and_a_training_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\nb a a\n")
    model, checkpoint = str(tmp_path / "m"), str(tmp_path / "c")
    words = ["train", "lm", str(tmp_path / "text"), "-o", model, "--dims", "2", "-q"]
    words += ["--max-iterations", "3", "--checkpoint", checkpoint]
    assert run(*words).code == 0
    assert run(*words).code == 1
    for option_ in ("--overwrite", "--resume"):
        done = run(*words, option_)
        assert done.code == 0, done.err
