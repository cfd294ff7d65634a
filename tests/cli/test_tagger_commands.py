"""Train, tag, evaluate and inspect taggers as users do, on sentences with a plain pattern."""

from __future__ import annotations

import io
import itertools
import json
import sys
from pathlib import Path

import pytest

from mrflearn import HMMTagger, JointTagger
from mrflearn.estimators.base import load
from mrflearn.evaluation.tagging import confusion, tagging_report
from mrflearn.io.conllu import ConlluRow, ConlluSentence, read_conllu, write_conllu
from support.command import run

NOUNS, VERBS = ["cat", "dog", "bird"], ["barked", "walked", "jumped"]
MODELS = ("hmm", "plain", "joint")


def sentence(noun: str, verb: str) -> ConlluSentence:
    words = [("the", "DET", "DT"), (noun, "NOUN", "NN"), (verb, "VERB", "VBD"), (".", "PUNCT", ".")]
    rows = [
        ConlluRow(str(i), form, form, upos, xpos, "A=b", "0", "root", f"{i}:x", "SpaceAfter=No")
        for i, (form, upos, xpos) in enumerate(words, start=1)
    ]
    rows.insert(1, ConlluRow("2-3", f"{noun}{verb}", *"________"))
    rows.append(ConlluRow("4.1", "gap", *"________"))
    return ConlluSentence((f"# text = the {noun} {verb}.", "# kept as it is"), tuple(rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taggers")
    sentences = [sentence(*pair) for pair in itertools.product(NOUNS, VERBS)]
    write_conllu(folder / "train.conllu", sentences * 2)
    write_conllu(folder / "test.conllu", [sentence("cow", "walked"), sentence("cat", "kicked")])
    train, valid = str(folder / "train.conllu"), str(folder / "test.conllu")
    for name, *words in (
        ("hmm", "hmm"),
        ("plain", "hmm", "--order", "1", "--labels", "xpos"),
        ("joint", "tagger", "--words", "1", "--max-iterations", "15", "-q"),
    ):
        output = ["-o", str(folder / name)]
        found = run("train", *words, train, *output, "--validation", valid, "--json")
        assert found.code == 0, found.err
        assert found.json()["validation"]["unseen_tokens"] == 2
    return folder


def test_training_tells_what_was_learned(folder: Path, tmp_path: Path) -> None:
    train, valid = str(folder / "train.conllu"), str(folder / "test.conllu")
    told = run("train", "hmm", train, "-o", str(tmp_path / "m"), "--validation", valid).facts()
    assert (told["order"], told["tags"], told["words"]) == ("2", "DET, NOUN, VERB, PUNCT", "8")
    assert "accuracy_unseen=" in told["validation"]
    answer = run("train", "hmm", train, "-o", str(tmp_path / "n"), "--json").json()
    assert answer["tags"] == ["DET", "NOUN", "VERB", "PUNCT"]
    assert (answer["sentences"], answer["tokens"], answer["words"]) == (18, 72, 8)
    assert sum(answer["interpolation"]) == pytest.approx(1)
    options = ["--words", "1", "--max-iterations", "5", "-q"]
    told = run("train", "tagger", train, "-o", str(tmp_path / "o"), *options).facts()
    assert told["log likelihood per position"].endswith(" nats")


@pytest.mark.parametrize("noun", ["hmm", "tagger"])
def test_a_malformed_held_out_file_is_found_before_training(
    folder: Path, tmp_path: Path, noun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"hmm": HMMTagger, "tagger": JointTagger}[noun]
    monkeypatch.setattr(kind, "fit", lambda *_, **__: pytest.fail("it was trained first"))
    (tmp_path / "bad.conllu").write_text("1\tthe\n")
    found = run(
        "train", noun, str(folder / "train.conllu"), "-o", str(tmp_path / "m"),
        "--validation", str(tmp_path / "bad.conllu"),
    )  # fmt: skip
    assert found.code == 1
    assert "bad.conllu:1: " in found.err


def test_text_without_tags_is_learned_from(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("the cow jumped .\nthe cow kicked .\n")
    arguments = ["train", "tagger", str(folder / "train.conllu"), "-o", str(tmp_path / "m"), "-q"]
    arguments += ["--words", "1", "--max-iterations", "5", "--json", "--overwrite"]
    more = ["--unlabelled", str(tmp_path / "plain.txt"), "--rounds", "1"]
    choice = ["--unlabelled-weight", "0.1,0.5", "--validation", str(folder / "test.conllu")]
    found = run(*arguments, *more, *choice)
    assert found.code == 0, found.err
    answer = found.json()
    assert answer["unlabelled_weight"] in (0.1, 0.5)
    assert (answer["sentences"], answer["words"]) == (20, 10)
    for options, says in (
        (["--rounds", "2"], "every word has its tag"),
        (["--l2", "a"], "is no number"),
        (["--l2", "-1"], "not below 0"),
        (["--l2", "0.1,1"], "name --validation"),
    ):
        wrong = run(*arguments, *options)
        assert wrong.code == 2
        assert says in wrong.err


@pytest.mark.parametrize("name", MODELS)
def test_conllu_keeps_all_but_the_column_of_tags(folder: Path, tmp_path: Path, name: str) -> None:
    text = (folder / "test.conllu").read_text()
    bare = [
        ConlluSentence(s.comments, tuple(r._replace(upos="_", xpos="_") for r in s.rows))
        for s in read_conllu(folder / "test.conllu")
    ]
    write_conllu(tmp_path / "bare.conllu", bare)
    found = run("tag", str(folder / name), str(tmp_path / "bare.conllu"))
    assert found.code == 0, found.err
    (tmp_path / "out.conllu").write_text(found.out)
    column, other = ("xpos", "upos") if name == "plain" else ("upos", "xpos")
    tags = load(folder / name).predict([s.forms for s in bare])
    for before, after, own in zip(bare, read_conllu(tmp_path / "out.conllu"), tags, strict=True):
        assert list(getattr(after, column)) == own
        assert set(getattr(after, other)) == {"_"}
        blank = tuple(row._replace(**{column: "_"}) for row in after.rows)
        assert (after.comments, blank) == (before.comments, before.rows)
    again = run("tag", str(folder / name), str(folder / "test.conllu")).out
    assert len(again.splitlines()) == len(text.splitlines())


def test_probabilities_stand_among_the_remarks_of_conllu(folder: Path) -> None:
    arguments = ("tag", str(folder / "hmm"), str(folder / "test.conllu"), "--marginals")
    tagger = load(folder / "hmm")
    words = [s.forms for s in read_conllu(folder / "test.conllu")]
    out = run(*arguments, "--number", "2").out
    best = tagger.n_best(words, 2)
    assert out.count("# nbest = 0") == out.count("# nbest = 1") == 2
    assert f"# probability = {best[0][0][1]:.6f}" in out
    chance = tagger.predict_proba(words)[0][0].max()
    assert f"SpaceAfter=No|TagProbability={chance:.4f}" in out
    answers = [
        json.loads(line) for line in run(*arguments, "--number", "2", "--json").out.split("\n")[:-1]
    ]
    assert [a["words"] for a in answers] == [list(own) for own in words]
    assert [(b["labels"], b["probability"]) for b in answers[0]["nbest"]] == best[0]
    assert (answers[0]["labels"], answers[0]["probability"]) == best[0][0]
    assert set(answers[0]["marginals"][0]) == set(tagger.classes_)


def test_text_comes_through_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, text, expected in (
        (
            ["--format", "text", "--batch", "1"],
            b"the dog barked .\n\nthe cow\n",
            "the DET\ndog NOUN",
        ),
        (["--format", "columns"], b"the\ndog\n", "the DET\ndog NOUN\n\n"),
        ([], (folder / "test.conllu").read_bytes(), "# text = the cow walked."),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        found = run("tag", str(folder / "hmm"), *options)
        assert found.code == 0, found.err
        assert found.out.startswith(expected)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n")))
    wrong = run("tag", str(folder / "hmm"))
    assert wrong.code == 1
    assert "A pipe is read as conllu, as trained on; see --format." in wrong.err


def test_columns_and_tagged_text_train_too(tmp_path: Path) -> None:
    (tmp_path / "a.tagged").write_text("the/D dog/N\na/D cat/N\n")
    (tmp_path / "a.txt").write_text("-DOCSTART- O\n\nthe D\ndog N\n\na D\ncat N\n")
    for name in ("a.tagged", "a.txt"):
        model = str(tmp_path / f"{name}-model")
        found = run("train", "hmm", str(tmp_path / name), "-o", model, "--json")
        assert found.json()["column"] == "tag"
        told = run("tag", model, str(tmp_path / name), "--marginals").out
        assert "dog N N " in told
        assert run("evaluate", model, str(tmp_path / name), "--json").json()["accuracy"] == 1.0
    assert told.startswith("-DOCSTART- -X- O\n\nthe D D ")


@pytest.mark.parametrize("name", MODELS)
def test_evaluate_counts_what_the_library_counts(folder: Path, tmp_path: Path, name: str) -> None:
    column = "xpos" if name == "plain" else "upos"
    odd = [s.rows[0]._replace(**{column: "ODD"}) for s in read_conllu(folder / "test.conllu")]
    sentences = [
        ConlluSentence(s.comments, (row, *s.rows[1:]))
        for s, row in zip(read_conllu(folder / "test.conllu"), odd, strict=True)
    ]
    write_conllu(tmp_path / "odd.conllu", sentences)
    picture = tmp_path / "sure.png"
    words = [str(folder / name), str(tmp_path / "odd.conllu")]
    found = run("evaluate", *words, "--json", "--calibration", "--plot", str(picture))
    assert found.code == 0, found.err
    answer, tagger = found.json(), load(folder / name)
    truth = [getattr(s, column) for s in sentences]
    predicted = tagger.predict([s.forms for s in sentences])
    report = tagging_report(
        truth, predicted, words=[s.forms for s in sentences], known=tagger.known_words_
    )
    assert report.seen is not None
    assert report.unseen is not None
    assert answer["accuracy"] == report.tokens.accuracy
    assert answer["accuracy_seen"] == report.seen.accuracy
    assert answer["accuracy_unseen"] == report.unseen.accuracy
    assert answer["unknown_tags"] == {"ODD": 2}
    assert "the tag 'ODD' was never seen in training; its 2 tokens count as wrong" in found.err
    table = confusion(truth, predicted)
    assert answer["confusion"] == {"labels": list(table.labels), "counts": table.counts.tolist()}
    assert answer["mistakes"][0] == {"true": "ODD", "predicted": predicted[0][0], "tokens": 2}
    assert 0 <= answer["calibration_error"] <= 1
    assert picture.exists()
    told = run("evaluate", *words, "--calibration").out
    assert ["unseen", "tokens", "2"] in [line.split() for line in told.splitlines()]
    assert "calibration error" in told


def test_inspect_shows_settings_and_steps(folder: Path) -> None:
    answer = run("inspect", str(folder / "hmm"), "-n", "2", "--json").json()
    assert answer["settings"]["order"] == 2
    assert answer["steps"] == [["DET", "NOUN", 18, 1.0], ["NOUN", "VERB", 18, 1.0]]
    told = run("inspect", str(folder / "hmm")).out.splitlines()
    assert ["DET", "NOUN", "18", "1.0000"] in [line.split() for line in told]
    assert run("inspect", str(folder / "joint"), "--json").json()["class"] == "JointTagger"
    assert "log likelihood per position" in run("inspect", str(folder / "joint")).out


def test_a_tagger_from_python_tags_files(folder: Path, tmp_path: Path) -> None:
    HMMTagger().fit([["the", "dog"]], [["DET", "NOUN"]]).save(tmp_path / "model")
    (tmp_path / "new.txt").write_text("the dog\n")
    assert (
        run("tag", str(tmp_path / "model"), str(tmp_path / "new.txt")).out
        == "the DET\ndog NOUN\n\n"
    )
    assert "DET" in run("tag", str(tmp_path / "model"), str(folder / "test.conllu")).out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["train", "hmm", "{}/none.conllu", "-o", "{}/x"], 1, "none.conllu: there is no such file"),
        (["train", "hmm", "{}/train.conllu", "-o", "{}/x", "--column", "q"], 1, "no tags in 'q'"),
        (["train", "hmm", "{}/gaps.conllu", "-o", "{}/x"], 1, "words without a tag"),
        (["train", "hmm", "{}/train.conllu", "-o", "{}/x", "--order", "3"], 2, "--order"),
        (["train", "tagger", "{}/train.conllu", "-o", "{}/x", "--words", "2"], 2, "--words"),
        (["train", "tagger", "{}/short.conllu", "-o", "{}/x"], 1, "short.conllu:1: 1 filled"),
        (
            ["train", "hmm", "{}/train.conllu", "-o", "{}/x", "--validation", "{}/e.txt"],
            1,
            "no sent",
        ),
        (
            ["tag", "{}/hmm", "{}/test.conllu", "--spans"],
            2,
            "--spans: has no effect on a HMMTagger",
        ),
        (["tag", "{}/hmm", "{}/test.conllu", "--scheme", "IOB2"], 2, "--scheme: has no effect"),
        (["evaluate", "{}/hmm", "{}/gaps.conllu"], 1, "sentence 1 has tokens without a label"),
        (
            ["evaluate", "{}/hmm", "{}/test.conllu", "--train", "{}/e.txt"],
            2,
            "--train: has no effect",
        ),
        (
            ["evaluate", "{}/hmm", "{}/test.conllu", "--scheme", "IOB2"],
            2,
            "--scheme: has no effect",
        ),
        (["inspect", "{}/hmm", "--label", "X"], 2, "--label: has no effect"),
        (["score", "{}/hmm", "{}/test.conllu"], 1, "Ask it otherwise: `mrflearn tag`"),
        (["sample", "{}/hmm"], 1, "no answer to `mrflearn sample`"),
        (["fill", "{}/hmm", "a _ b"], 1, "no answer to `mrflearn fill`"),
    ],
)
def test_mistakes_end_in_one_line(folder: Path, arguments: list[str], code: int, says: str) -> None:
    gaps = (folder / "train.conllu").read_text().replace("\tNOUN\t", "\t_\t", 1)
    (folder / "gaps.conllu").write_text(gaps)
    (folder / "short.conllu").write_text("the\n")
    (folder / "e.txt").write_text("")
    found = run(*(argument.format(folder) for argument in arguments))
    assert found.code == code
    assert says in found.err
    assert "Traceback" not in found.err
