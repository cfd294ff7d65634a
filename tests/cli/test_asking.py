"""Every verb asked of every kind of model: an answer, or one line that says what else to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.describe import DESCRIPTIONS, described_by
from mrflearn.describe.description import VERBS
from support.command import run
from support.estimators import estimators

TEXT, ROWS, TREE = "the baltion corize\n", "0 1 0 1\n1 1 0 0\n", "(S (NP (DT the)) (VP (VB go)))\n"
QUESTIONS = {
    "score": ["TEXT"],
    "evaluate": ["TREES"],
    "tag": ["TEXT"],
    "sample": [],
    "inspect": [],
    "fill": ["the _"],
    "neighbors": ["the"],
    "parse": ["TEXT"],
    "next-word": ["the"],
}
FIELDS = ("MarkovField", "PottsField")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("asked")
    for name, door in estimators().items():
        door.fitted().save(home / name)
    (home / "text").write_text(TEXT)
    (home / "rows").write_text(ROWS)
    (home / "trees").write_text(TREE)
    return home


def asked(folder: Path, kind: str, verb: str) -> list[str]:
    files = {"TEXT": folder / "text", "TREES": folder / "trees"}
    if kind in FIELDS:
        files = dict.fromkeys(files, folder / "rows")
    words = [str(files.get(word, word)) for word in QUESTIONS[verb]]
    return [verb, str(folder / kind), *words]


def answers(kind: str, verb: str) -> bool:
    """Whether the description of a kind of model has a method for the verb."""
    return kind in DESCRIPTIONS and hasattr(described_by(kind), VERBS[verb])


def test_every_verb_is_asked_here() -> None:
    assert VERBS.keys() == QUESTIONS.keys()


@pytest.mark.parametrize("verb", QUESTIONS)
@pytest.mark.parametrize("kind", estimators())
def test_each_verb_answers_or_says_what_else_to_ask(folder: Path, kind: str, verb: str) -> None:
    found = run(*asked(folder, kind, verb))
    refused = "has no answer to" in found.err
    assert refused == (not answers(kind, verb))
    # Models of labels were fitted in Python here, and say that they cannot read files.
    assert found.code == 0 or len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("NgramLanguageModel", ["--method", "ais"]),
        ("LanguageModel", ["--keep", "1"]),
        ("PCFG", ["--drop-inserts"]),
    ],
)
def test_options_that_a_model_does_not_read_are_refused(
    folder: Path, kind: str, words: list[str]
) -> None:
    found = run(*asked(folder, kind, "score"), *words)
    assert found.code == 2
    assert f"{words[0]}: has no effect on a {kind}" in found.err


@pytest.mark.parametrize("kind", ["NgramLanguageModel", "CompositeLanguageModel", "PottsField"])
def test_complaints_of_a_file_name_it(folder: Path, kind: str) -> None:
    blank = folder / "blank"
    blank.write_text("\n\n")
    found = run("score", str(folder / kind), str(blank))
    assert found.code == 1
    assert found.err.startswith(f"mrflearn: {blank}: ")


def test_a_treebank_without_trees_is_no_mark_of_a_parser(folder: Path) -> None:
    (folder / "nothing").write_text("")
    found = run("evaluate", str(folder / "PCFG"), str(folder / "nothing"))
    assert (found.code, "there are no trees in it" in found.err) == (1, True)


def test_an_option_that_only_changes_another_needs_it(folder: Path) -> None:
    found = run("inspect", str(folder / "PottsField"), "--edges")
    assert found.code == 2
    assert "--edges says what --plot" in found.err


@pytest.mark.parametrize(
    ("kind", "verb", "shown", "left_out"),
    [
        ("MarkovField", "inspect", "--apart", "--label"),
        ("CRF", "inspect", "--label", "--apart"),
        ("NgramLanguageModel", "score", "--json", "--method"),
    ],
)
def test_help_with_a_model_has_the_options_of_that_model(
    folder: Path, kind: str, verb: str, shown: str, left_out: str
) -> None:
    found = run(verb, str(folder / kind), "--help")
    assert found.code == 0
    assert (shown in options(found.out), left_out in options(found.out)) == (True, False)
    assert {shown, left_out} <= options(run(verb, "--help").out)


def options(text: str) -> set[str]:
    """The options that a help lists."""
    words = (line.replace(",", " ").split() for line in text.splitlines())
    return {own for line in words for own in line[:3] if own.startswith("--")}
