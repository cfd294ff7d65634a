"""The one description of every kind of model: it is there, and reads what its verbs are given."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import mrflearn
from mrflearn.cli.main import app
from mrflearn.describe import DESCRIPTIONS, describe, described_by
from mrflearn.describe.blocks import add_blocks, as_text
from mrflearn.describe.description import VERBS, Description, parameters
from mrflearn.plots import Page
from support.estimators import estimators

ANSWERS = [
    (kind, verb)
    for kind in DESCRIPTIONS
    for verb, method in VERBS.items()
    if hasattr(described_by(kind), method)
]
SHOWING = ("cli", "serving", "plots")
SOURCE = Path(mrflearn.__file__).parent


def test_every_model_that_can_be_saved_is_known() -> None:
    assert set(mrflearn.__all__) >= estimators().keys()
    saved = {name for name in mrflearn.__all__ if hasattr(getattr(mrflearn, name), "from_stored")}
    assert saved == estimators().keys()
    assert estimators().keys() - DESCRIPTIONS.keys() == {"FieldStructure"}  # asked in Python


def test_the_guide_says_what_each_can_be_asked_on_a_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "start" / "serve.md"
    told = re.findall(r"^\| (`.*?`) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(told))) == DESCRIPTIONS.keys()


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_every_description_says_what_was_learned_and_what_can_be_asked(kind: str) -> None:
    own = described_by(kind)
    assert issubclass(own, Description)
    assert own.learned is not Description.learned
    assert own.tasks is not Description.tasks
    assert {"inspect"} <= {verb for name, verb in ANSWERS if name == kind}


@pytest.mark.parametrize(("kind", "verb"), ANSWERS)
def test_an_answer_reads_what_its_verb_is_given(kind: str, verb: str) -> None:
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    given = {own.name: own.param_type_name for own in command.params if own.name != "model"}
    read = parameters(described_by(kind), verb)
    assert {*read} <= {*given, "rows"}
    # An option may be of no use to a model and is refused then; words of the question never are.
    needed = {name for name, what in given.items() if what == "argument"}
    assert {*read} >= needed or {*read, "file"} - {"rows"} >= needed


@pytest.mark.parametrize("package", SHOWING)
def test_no_package_tells_models_apart_by_itself(package: str) -> None:
    """No name of a class is compared with anywhere: that is what descriptions are for."""
    found = [
        f"{file.name}:{node.lineno}"
        for file in (SOURCE / package).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in DESCRIPTIONS
    ]
    assert found == []


def test_a_question_to_one_model_loads_nothing_of_the_others(tmp_path: Path) -> None:
    mrflearn.NgramLanguageModel(2).fit([["a", "b"], ["b"]]).save(tmp_path / "m")
    code = (
        "import sys; from mrflearn.cli.main import main\n"
        f"sys.argv = ['mrflearn', 'inspect', {str(tmp_path / 'm')!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*(m for m in sys.modules if m.startswith(('mrflearn.e', 'mrflearn.d'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.splitlines()[-1].split())
    homes = {type(own.model).__module__ for own in estimators().values()}
    assert loaded & homes == {"mrflearn.estimators.ngram"}
    assert not loaded & {f"mrflearn.describe.{own}" for own in ("labellers", "fields", "grammars")}


def test_a_second_order_lists_pairs_of_labels_among_its_triples() -> None:
    example = estimators()["CRF"]
    model = mrflearn.CRF(order=2, max_iterations=5).fit(*example.data)
    page = Page("second order")
    shown = describe(model).report()
    add_blocks(page, shown)
    (moves,) = (own for own in shown if getattr(own, "key", "") == "transitions")
    assert {len(row) for row in moves.rows} == {4}
    assert "next but one" in as_text(shown)
