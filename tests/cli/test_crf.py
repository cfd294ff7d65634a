"""Train, tag, evaluate and inspect a chain CRF as users do, on sentences with a plain pattern."""

from __future__ import annotations

import io
import itertools
import json
import sys
from pathlib import Path

import pytest

from mrflearn.estimators.base import load
from mrflearn.estimators.crf import CRF
from mrflearn.evaluation.chunks import chunk_report
from support.command import run

NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["saw", "ate", "fed"]
FIRST = "the DT B-NP\ncat NN I-NP\nsaw VBD B-VP\nthe DT B-NP\ndog NN I-NP\n. . O\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crf")
    rows = [
        f"the DT B-NP\n{a} NN I-NP\n{v} VBD B-VP\nthe DT B-NP\n{b} NN I-NP\n. . O\n\n"
        for a, b in itertools.permutations(NOUNS, 2)
        for v in VERBS
    ]
    (folder / "train.txt").write_text("".join(rows))
    (folder / "test.txt").write_text("".join(rows[::5]))
    found = run(
        "train", "crf", str(folder / "train.txt"), "--columns", "word,pos,chunk", "--labels",
        "chunk", "--validation", str(folder / "test.txt"), "--calibrate", "--max-iterations", "30",
        "-q", "-o", str(folder / "model"), "--json",
    )  # fmt: skip
    assert found.code == 0, found.err
    answer = found.json()
    assert answer["labels"] == ["B-NP", "I-NP", "B-VP", "O"]
    assert answer["temperature"] == load(folder / "model").temperature_
    assert answer["iterations"] <= 30
    return folder


def test_training_tells_people_what_was_learned(folder: Path) -> None:
    found = run("train", "crf", str(folder / "test.txt"), "-o", str(folder / "other"), "-q")
    assert found.code == 0
    told = found.facts()
    assert told["model"] == str(folder / "other")
    assert {"class", "attributes", "objective", "iterations", "reason", "seconds"} <= told.keys()
    assert load(folder / "other").recipe_.columns == ("word", "column2", "label")


def test_tag_puts_a_label_behind_each_row(folder: Path) -> None:
    found = run("tag", str(folder / "model"), str(folder / "test.txt"))
    assert found.code == 0
    rows = [line.split(" ") for line in found.out.splitlines() if line]
    assert all(row[2] == row[3] for row in rows)
    assert found.out.count("\n\n") == 8
    assert [row[:3] for row in rows] == [
        line.split(" ") for line in (folder / "test.txt").read_text().splitlines() if line
    ]


def test_tag_reads_a_pipe_without_labels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = b"-DOCSTART- -X-\n\nthe DT\nbird NN\n. .\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bare)))
    found = run("tag", str(folder / "model"), "--batch", "1")
    assert found.out == "-DOCSTART- -X- O\n\nthe DT B-NP\nbird NN I-NP\n. . O\n\n"


def test_tag_gives_probabilities_in_rows_and_in_json(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(FIRST)
    arguments = ("tag", str(folder / "model"), str(tmp_path / "one.txt"))
    crf = load(folder / "model")
    items = [next(crf.recipe_.read(tmp_path / "one.txt")).tokens]
    answer = run(*arguments, "--number", "3", "--marginals", "--spans", "--json").json()
    assert answer["words"] == ["the", "cat", "saw", "the", "dog", "."]
    best = crf.n_best(items, 3)[0]
    assert [(b["labels"], b["probability"]) for b in answer["nbest"]] == best
    assert answer["probability"] == best[0][1]
    assert answer["marginals"] == crf.predict_marginals_single(items[0])
    assert [tuple(s.values()) for s in answer["spans"]] == crf.predict_spans(items, 3)[0]

    text = run(*arguments, "--number", "2", "--marginals").out.splitlines()
    assert text[0] == f"# 0 {best[0][1]:.6f}"
    assert text[1] == f"the DT B-NP B-NP {answer['marginals'][0]['B-NP']:.4f}"
    assert text[8] == f"# 1 {best[1][1]:.6f}"
    spans = run(*arguments, "--spans").out.splitlines()
    first = crf.predict_spans(items)[0][0]
    assert spans[0] == f"0\t2\tNP\t{first.probability:.4f}\tthe cat"


def test_tag_keeps_to_a_scheme(tmp_path: Path) -> None:
    file, model = tmp_path / "iob1.txt", str(tmp_path / "model")
    file.write_text("cats I-NP\nran O\n\ncats I-NP\ndogs B-NP\n\n")
    assert run("train", "crf", str(file), "-o", model, "-q", "--c2", "0.01").code == 0
    free = run("tag", model, str(file), "--json").out.splitlines()
    legal = run("tag", model, str(file), "--json", "--scheme", "IOB2").out.splitlines()
    assert json.loads(free[0])["labels"] == ["I-NP", "O"]
    assert json.loads(legal[0])["labels"] == ["B-NP", "O"]


def test_crfsuite_text_goes_in_and_labels_come_out(tmp_path: Path) -> None:
    file, model = tmp_path / "items.crfsuite", str(tmp_path / "model")
    file.write_text("X\ta\tb:0.5\nY\tc\n\nY\tc\n\n")
    assert run("train", "crf", str(file), "-o", model, "-q", "--c2", "0.01").code == 0
    assert run("tag", model, str(file)).out == "X\nY\n\nY\n\n"
    assert run("evaluate", model, str(file), "--json").json()["accuracy"] == 1.0


def test_evaluate_counts_what_the_library_counts(folder: Path, tmp_path: Path) -> None:
    text = (folder / "test.txt").read_text().replace("saw VBD B-VP", "saw VBD O")
    (tmp_path / "wrong.txt").write_text(text)
    found = run(
        "evaluate", str(folder / "model"), str(tmp_path / "wrong.txt"), "--json", "--train",
        str(folder / "train.txt"), "--calibration", "--plot", str(tmp_path / "sure.png"),
    )  # fmt: skip
    answer = found.json()
    crf = load(folder / "model")
    items, truth = crf.recipe_.labelled(tmp_path / "wrong.txt")
    predicted = crf.predict(items)
    total = chunk_report(truth, [tuple(tags) for tags in predicted]).total
    assert total.f1 < 1
    expected = {"precision": total.precision, "recall": total.recall, "f1": total.f1}
    assert {name: answer[name] for name in expected} == expected
    assert answer["accuracy"] == crf.score(crf.recipe_.labelled(tmp_path / "wrong.txt")[0], truth)
    assert answer["mistakes"] == [
        {"true": "O", "predicted": "B-VP", "tokens": text.count("saw VBD O")}
    ]
    assert answer["unseen_tokens"] == 0
    assert answer["accuracy_unseen"] is None
    assert 0 < answer["calibration_error"] < 1
    assert (tmp_path / "sure.png").exists()
    wrong = str(tmp_path / "wrong.txt")
    run("evaluate", str(folder / "model"), wrong, "--plot", str(tmp_path / "confusion.png"))
    assert (tmp_path / "confusion.png").exists()


def test_evaluate_tells_people(folder: Path) -> None:
    found = run("evaluate", str(folder / "model"), str(folder / "test.txt"), "--calibration")
    told = [line.split() for line in found.out.splitlines()]
    assert ["sentences", "8"] in told
    assert ["tokens", "48"] in told
    assert ["accuracy", "100.00", "%"] in told
    assert ["NP", *["100.00", "%"] * 3, "16"] in told
    assert "calibration error" in found.out


def test_inspect_shows_the_heaviest_weights(folder: Path) -> None:
    crf = load(folder / "model")
    answer = run("inspect", str(folder / "model"), "-n", "3", "--json").json()
    assert answer["features"] == [list(row) for row in crf.top_features(n=3)]
    one = run("inspect", str(folder / "model"), "--label", "B-VP", "--json").json()
    assert {row[1] for row in one["features"]} == {"B-VP"}
    assert all("B-VP" in row for row in one["transitions"])
    told = run("inspect", str(folder / "model")).out.splitlines()
    assert ["B-NP", "I-NP"] in [line.split()[:2] for line in told]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["train", "crf", "{}/none.txt", "-o", "{}/x"], 1, "none.txt: there is no such file"),
        (["train", "crf", "{}/train.txt", "-o", "{}/x", "--calibrate"], 2, "name --validation"),
        (["train", "crf", "{}/train.txt", "-o", "{}/x", "--labels", "q"], 1, "no column 'q'"),
        (["tag", "{}/model", "{}/short.txt"], 1, "short.txt:1: 1 cells where"),
        (["tag", "{}/no-model", "{}/test.txt"], 1, "does not exist"),
        (["tag", "{}/python-model", "{}/test.txt"], 1, "was trained on features"),
        (["evaluate", "{}/model", "{}/bare.txt"], 1, "no labels to compare with"),
        (["inspect", "{}/model", "--label", "X"], 1, "no label 'X'"),
    ],
)
def test_mistakes_end_in_one_line(folder: Path, arguments: list[str], code: int, says: str) -> None:
    (folder / "short.txt").write_text("the\n")
    (folder / "bare.txt").write_text("the DT\n")
    CRF(max_iterations=2).fit([[["a"], ["b"]]], [["X", "Y"]]).save(
        folder / "python-model", overwrite=True
    )
    found = run(*(argument.format(folder) for argument in arguments))
    assert found.code == code
    assert says in found.err
    assert "Traceback" not in found.err


def test_answers_in_json_are_one_line_a_sentence(folder: Path) -> None:
    found = run("tag", str(folder / "model"), str(folder / "test.txt"), "--json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert len(lines) == 8
    assert set(lines[0]) == {"words", "labels", "probability"}


def test_b_templates_give_transitions_attributes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "template").write_text("U00:%x[0,0]\nB01:%x[0,1]\n")
    found = run(
        "train", "crf", str(folder / "train.txt"), "--columns", "word,pos,chunk", "--template",
        str(tmp_path / "template"), "-q", "-o", str(tmp_path / "model"),
    )  # fmt: skip
    assert found.code == 0, found.err
    tagged = run("tag", str(tmp_path / "model"), str(folder / "test.txt"))
    rows = [line.split(" ") for line in tagged.out.splitlines() if line]
    assert rows
    assert all(row[2] == row[3] for row in rows)
    weights = CRF.load(tmp_path / "model").edge_features_
    assert weights["B01:NN", "B-NP", "I-NP"] > 0
    shown = run("inspect", str(tmp_path / "model"), "-n", "1", "--json").json()
    assert tuple(shown["edges"][0][:3]) in weights
    told = run("inspect", str(tmp_path / "model")).out
    assert ["B01:NN", "B-NP", "I-NP"] in [line.split()[:3] for line in told.splitlines()]


def test_nothing_to_evaluate_and_nowhere_to_draw_are_one_line_each(folder: Path) -> None:
    model, empty = str(folder / "model"), folder / "empty.txt"
    empty.write_text("")
    train = ["train", "crf", str(folder / "train.txt"), "-q", "-o", str(folder / "new")]
    for words, says in (
        ([*train, "--validation", str(empty)], "no sentences"),
        (["evaluate", model, str(empty)], "no sentences"),
        (
            ["evaluate", model, str(folder / "test.txt"), "--plot", str(empty / "a.png")],
            "cannot be written",
        ),
        (["convert", model, str(folder / "model.arpa")], "holds a CRF"),
    ):
        failed = run(*words)
        assert failed.code == 1
        assert says in failed.err
        assert len(failed.err.splitlines()) == 1


def test_a_crf_knows_its_columns(folder: Path) -> None:
    words = [str(folder / "model"), str(folder / "test.txt"), "--columns", "word"]
    assert run("evaluate", *words).code == 2


CONLLU_ROWS = [("Dogs", "NOUN"), ("bark", "VERB"), ("loudly", "ADV")]


def conllu(tags: list[str]) -> str:
    """A sentence of CoNLL-U without language-specific tags."""
    rows = enumerate(zip((form for form, _ in CONLLU_ROWS), tags, strict=True), start=1)
    return "".join(f"{i}\t{form}\t_\t{tag}" + "\t_" * 6 + "\n" for i, (form, tag) in rows) + "\n"


def test_conllu_is_learned_by_its_universal_tags(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(conllu([tag for _, tag in CONLLU_ROWS]), encoding="utf-8")
    found = run("train", "crf", str(file), "-q", "--json", "-o", str(tmp_path / "m"))
    assert found.code == 0
    assert sorted(found.json()["labels"]) == ["ADV", "NOUN", "VERB"]


@pytest.mark.parametrize(
    "command",
    [
        "crf",
        "crf --structure skip",
        "crf --structure factorial --labels upos,xpos",
        "crf --labels xpos",
        "hmm",
        "tagger",
    ],
)
def test_a_single_label_is_refused(tmp_path: Path, command: str) -> None:
    file = tmp_path / "a.conllu"
    tags = [tag for _, tag in CONLLU_ROWS] if "xpos" in command else ["X", "X", "X"]
    file.write_text(conllu(tags), encoding="utf-8")
    kind, *options = command.split()
    found = run("train", kind, str(file), "-q", "-o", str(tmp_path / "m"), *options)
    assert (found.code, found.out) == (1, "")
    assert str(file) in found.err
    assert "--labels" in found.err
    assert ("xpos" if "xpos" in command else "upos") in found.err
    assert not (tmp_path / "m").exists()
