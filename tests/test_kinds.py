"""The one table of models: every place in it is there, and answers what the verb asks."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from typer.main import get_command

import mrflearn
from mrflearn.cli.main import app
from mrflearn.kinds import KINDS, found_in
from support.estimators import estimators

ANSWERS = [(kind, verb) for kind, own in KINDS.items() for verb in own.verbs]
PACKAGES = ("cli", "serving", "plots")
SOURCE = Path(mrflearn.__file__).parent


def test_every_model_that_can_be_saved_is_in_it() -> None:
    assert KINDS.keys() == estimators().keys()
    assert set(mrflearn.__all__) >= KINDS.keys()


def test_the_guide_says_what_each_can_be_asked_on_a_page() -> None:
    page = Path(__file__).parents[1] / "docs" / "start" / "serve.md"
    told = re.findall(r"^\| (`.*?`) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    asked = {kind for kind, own in KINDS.items() if own.tasks is not None}
    assert set(re.findall(r"`(\w+)`", " ".join(told))) == asked


@pytest.mark.parametrize("kind", KINDS)
def test_pages_and_tasks_are_there(kind: str) -> None:
    page, tasks = KINDS[kind].page, KINDS[kind].tasks
    if page is not None:
        assert [*inspect.signature(found_in("plots", page)).parameters] == ["page", "model"]
    if tasks is not None:
        assert [*inspect.signature(found_in("serving", tasks)).parameters] == ["model"]


@pytest.mark.parametrize(("kind", "verb"), ANSWERS)
def test_an_answer_reads_what_its_verb_is_given(kind: str, verb: str) -> None:
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    given = {own.name: own.param_type_name for own in command.params if own.name != "model"}
    _, *read = inspect.signature(found_in("cli", KINDS[kind].verbs[verb])).parameters
    assert {*read} <= {*given, "folder"}
    # An option may be of no use to a model and is refused then; words of the question never are.
    assert {*read} >= {name for name, what in given.items() if what == "argument"}
    assert ("as_json" in given) == ("as_json" in read)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_tells_models_apart_by_itself(package: str) -> None:
    """No name of a class is compared with anywhere: that is what the table is for."""
    found = [
        f"{file.name}:{node.lineno}"
        for file in (SOURCE / package).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in KINDS
    ]
    assert found == []
