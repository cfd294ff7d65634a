"""Train, tag, evaluate and inspect factorial and skip-chain CRFs as users do."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from mrflearn.estimators.base import load
from support.command import run

NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["saw", "ate", "fed"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layered")
    rows = [
        f"the DT B-NP\n{a} NN I-NP\n{v} VBD O\nthe DT B-NP\n{b} NN I-NP\n. . O\n\n"
        for a, b in itertools.permutations(NOUNS, 2)
        for v in VERBS
    ]
    (folder / "train.txt").write_text("".join(rows))
    (folder / "test.txt").write_text("".join(rows[::5]))
    found = run(
        "train", "crf", str(folder / "train.txt"), "--columns", "word,pos,chunk", "--labels",
        "pos,chunk", "--c2", "0.05", "-q", "-o", str(folder / "both"), "--json",
    )  # fmt: skip
    assert found.code == 0, found.err
    answer = found.json()
    assert answer["structure"] == "factorial"
    assert answer["estimator"] == "pw"
    assert answer["labels"] == {"pos": ["DT", "NN", "VBD", "."], "chunk": ["B-NP", "I-NP", "O"]}
    return folder


def test_several_columns_of_labels_are_learned_together(folder: Path) -> None:
    assert type(load(folder / "both")).__name__ == "FactorialCRF"
    found = run("tag", str(folder / "both"), str(folder / "test.txt"))
    rows = [line.split() for line in found.out.splitlines() if line]
    assert rows
    assert all(row[1:3] == row[3:5] for row in rows)


def test_tagging_says_how_sure_and_how_it_was_done(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.txt").write_text("the\ncat\nsaw\n")
    found = run("tag", str(folder / "both"), str(tmp_path / "bare.txt"), "--marginals", "--json")
    answer = found.json()
    assert answer["labels"] == {"pos": ["DT", "NN", "VBD"], "chunk": ["B-NP", "I-NP", "O"]}
    assert answer["kind"] == "exact"
    assert sum(answer["marginals"]["pos"][0].values()) == pytest.approx(1)
    found = run("tag", str(folder / "both"), str(tmp_path / "bare.txt"), "--marginals")
    best = run("tag", str(folder / "both"), str(tmp_path / "bare.txt"), "-n", "2", "--json").json()
    assert best["nbest"][0]["labels"] == answer["labels"]
    assert best["nbest"][0]["score"] > best["nbest"][1]["score"]
    word, pos, sure, chunk, _ = found.out.splitlines()[0].split()
    assert (word, pos, chunk) == ("the", "DT", "B-NP")
    assert 0.5 < float(sure) <= 1


def test_evaluate_reports_each_layer(folder: Path) -> None:
    answer = run("evaluate", str(folder / "both"), str(folder / "test.txt"), "--json").json()
    assert answer["joint_accuracy"] == 1
    assert answer["layers"]["pos"]["accuracy"] == 1
    assert "f1" not in answer["layers"]["pos"]
    assert answer["layers"]["chunk"]["f1"] == 1
    told = run("evaluate", str(folder / "both"), str(folder / "test.txt")).out
    words = [line.split() for line in told.splitlines()]
    assert ["joint", "accuracy", "100.00", "%"] in words
    assert ["pos", "100.00", "%", "-", "-", "-"] in words


def test_inspect_names_layers_and_heavy_weights(folder: Path) -> None:
    answer = run("inspect", str(folder / "both"), "-n", "5", "--label", "NN", "--json").json()
    assert set(answer["labels"]) == {"pos", "chunk"}
    assert len(answer["features"]) == 5
    assert all("NN" in feature["labels"] for feature in answer["features"])
    told = run("inspect", str(folder / "both"), "-n", "3").out.split()
    assert {"FactorialCRF", "pw", "chunk=B-NP,"} <= {*told}
    wrong = run("inspect", str(folder / "both"), "--label", "XX")
    assert wrong.code == 2
    assert "no label 'XX'" in wrong.err


def test_a_skip_chain_learns_one_column(folder: Path) -> None:
    found = run(
        "train", "crf", str(folder / "train.txt"), "--columns", "word,pos,chunk", "--labels",
        "chunk", "--structure", "skip", "--skip-rule", "same-word", "--estimator", "pwpl", "-q",
        "-o", str(folder / "skip"),
    )  # fmt: skip
    assert found.code == 0, found.err
    told = found.facts()
    assert (told["structure"], told["labels"]) == ("skip", "chunk=B-NP, I-NP, O")
    model = load(folder / "skip")
    assert model.rule == "same-word"
    assert "skip 0" in [template.name for template in model.model_.templates]
    answer = run("evaluate", str(folder / "skip"), str(folder / "test.txt"), "--json").json()
    assert answer["layers"]["chunk"]["f1"] == 1
    tagged = run("tag", str(folder / "skip"), str(folder / "test.txt"), "--json").out
    first = json.loads(tagged.splitlines()[0])
    assert first["labels"] == {"chunk": ["B-NP", "I-NP", "O", "B-NP", "I-NP", "O"]}


def test_grmm_text_trains_and_tags(tmp_path: Path) -> None:
    text = "DT B ---- w=the\nNN I ---- w=cat\n\nDT B ---- w=the\nNN I ---- w=dog\n\n" * 3
    (tmp_path / "train.grmm").write_text(text)
    model = str(tmp_path / "m")
    found = run("train", "crf", str(tmp_path / "train.grmm"), "-q", "-o", model, "--json")
    assert found.json()["labels"] == {"layer1": ["DT", "NN"], "layer2": ["B", "I"]}
    answer = run("evaluate", model, str(tmp_path / "train.grmm"), "--json").json()
    assert answer["joint_accuracy"] == 1
    assert run("tag", model, str(tmp_path / "train.grmm")).out.startswith("DT B\nNN I\n\n")


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--labels", "pos,chunk", "--structure", "chain"], 2, "one label a token, and here are 2"),
        (["--labels", "pos,chunk", "--structure", "skip"], 2, "one label a token, and here are 2"),
        (["--labels", "pos,stress"], 1, "there is no column 'stress'"),
        (["--labels", "pos,chunk", "--structure", "tree"], 2, "'tree' is not one of"),
        (["--labels", "pos,chunk", "--estimator", "em"], 2, "'em' is not one of"),
        (["--labels", "pos,chunk", "--order", "2"], 2, "--order: has no effect"),
        (["--labels", "pos,chunk", "--validation", "-"], 2, "--validation: has no effect"),
        (["--labels", "pos,chunk", "--algorithm", "ap"], 2, "--algorithm ap has no effect"),
        (["--labels", "pos,chunk", "--skip-rule", "same-word"], 2, "--skip-rule: has no effect"),
        (["--labels", "chunk", "--skip-rule", "same-word"], 2, "--skip-rule: has no effect"),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, options: list[str], code: int, problem: str
) -> None:
    columns = ["--columns", "word,pos,chunk"]
    target = str(folder / "never")
    found = run("train", "crf", str(folder / "train.txt"), *columns, *options, "-o", target)
    assert found.code == code
    assert problem in " ".join(found.err.replace("│", " ").split())
    assert not (folder / "never").exists()


@pytest.mark.parametrize("options", [["tag", "--spans"], ["evaluate", "--calibration"]])
def test_questions_without_an_answer_are_refused(folder: Path, options: list[str]) -> None:
    verb, *rest = options
    found = run(verb, str(folder / "both"), str(folder / "test.txt"), *rest)
    assert found.code == 2
    assert f"{rest[0]}: has no effect on a" in found.err


def test_a_skip_chain_needs_words(tmp_path: Path) -> None:
    (tmp_path / "a.grmm").write_text("A ---- w=x\nB ---- w=y\n\n")
    options = ["--structure", "skip", "-q", "-o", str(tmp_path / "m")]
    found = run("train", "crf", str(tmp_path / "a.grmm"), *options)
    assert found.code == 1
    assert "a skip chain needs the words" in found.err


def test_a_chain_takes_any_estimator(folder: Path) -> None:
    options = ["--columns", "word,pos,chunk", "--labels", "chunk", "--estimator", "pwpl", "-q"]
    target = str(folder / "chain")
    found = run("train", "crf", str(folder / "train.txt"), *options, "-o", target)
    assert found.code == 0, found.err
    model = load(folder / "chain")
    assert (type(model).__name__, model.estimator) == ("CRF", "pwpl")
    answer = run("evaluate", target, str(folder / "test.txt"), "--json").json()
    assert answer["f1"] == 1
    refused = run(
        "train",
        "crf",
        str(folder / "train.txt"),
        *options,
        "--algorithm",
        "ap",
        "-o",
        target + "-ap",
    )
    assert refused.code == 1
    assert "--algorithm ap follows errors" in refused.err
    assert "no --estimator pwpl" in refused.err
