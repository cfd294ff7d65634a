"""Train, tag, evaluate, inspect and serve neural CRFs as users do."""

from __future__ import annotations

from pathlib import Path

import pytest

import mrflearn
from mrflearn.serving.service import Service
from support.command import run
from support.toy_language import toy_sentences

SMALL = ["--dims", "8", "--hidden", "8", "--char-filters", "8", "--char-dims", "4"]
SMALL += ["--max-iterations", "6", "--learning-rate", "0.03", "--batch-size", "20", "-q"]


def write(path: Path, count: int, seed: int, *, suffix: str = "") -> str:
    """A file of words, their last letters and their tags as chunks."""
    lines = []
    for words, tags in zip(*toy_sentences(count, seed), strict=True):
        chunks = ["O" if tag == "the" else f"B-{tag}" for tag in tags]
        lines += [f"{w} {w[-1]} {chunk}" for w, chunk in zip(words, chunks, strict=True)]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neural")
    train, valid = write(folder / "train.txt", 60, 0), write(folder / "valid.txt", 15, 1)
    (folder / "text.txt").write_text("\n".join(" ".join(w) for w in toy_sentences(60, 2)[0]))
    vectors = str(folder / "vectors")
    found = run("train", "vectors", str(folder / "text.txt"), "--dims", "5", "-o", vectors)
    assert found.code == 0, found.err
    words = ["train", "neural", train, "--columns", "word,end,label", *SMALL]
    words += ["--validation", valid, "--calibrate", "--vectors", vectors]
    found = run(*words, "-o", str(folder / "model"), "--json")
    assert found.code == 0, found.err
    answer = found.json()
    assert answer["class"] == "NeuralCRF"
    assert answer["iterations"] <= 6
    assert answer["temperature"] != 1.0
    return folder


def test_it_tags_and_is_evaluated(folder: Path) -> None:
    test = write(folder / "test.txt", 15, 3)
    model = str(folder / "model")
    found = run("evaluate", model, test, "--scheme", "IOB2", "--calibration", "--json").json()
    assert found["accuracy"] > 0.8
    assert 0.5 < found["f1"] <= 1.0
    assert "accuracy_unseen" not in found
    rows = run("tag", model, test, "--marginals").out.splitlines()
    assert len(rows[0].split()) >= 4
    answer = run("tag", model, test, "-n", "2", "--json")
    assert answer.code == 0
    spans = run("tag", model, test, "--spans")
    assert spans.code == 0
    assert "B-noun" not in spans.out


def test_it_is_inspected_and_reported(folder: Path) -> None:
    model = str(folder / "model")
    found = run("inspect", model, "-n", "5", "--label", "B-noun", "--json").json()
    assert len(found["features"]) == 5
    assert "B-noun" in str(found["features"])
    assert "B-verb" not in str(found["features"])
    assert found["weights"] > found["attributes"] > 0
    assert (folder / "model" / "report.html").is_file()


def test_it_is_served(folder: Path) -> None:
    service = Service({"names": folder / "model"})
    assert service.refused == {}
    (listed,) = service.catalogue()["models"]
    question = {"model": "names", "task": "tag", "text": "the/e zzzzz/z"}
    told = str(service.answer(question))
    assert listed["kind"] == "NeuralCRF"
    assert "zzzzz" in told


def test_training_goes_on_from_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    train, saved = str(folder / "train.txt"), ["--checkpoint", str(tmp_path / "c")]
    whole = ["train", "neural", train, *SMALL, "--held-out", "0", "-o"]
    assert run(*whole, str(tmp_path / "a"), *saved).code == 0
    assert run(*whole, str(tmp_path / "b"), *saved, "--resume").code == 0
    one, two = (mrflearn.load(tmp_path / name) for name in "ab")
    X = toy_sentences(5, 4)[0]
    rows = [[(word, word[-1]) for word in own] for own in X]
    assert one.predict(rows).tolist() == two.predict(rows).tolist()


def test_what_has_no_effect_is_refused(folder: Path, tmp_path: Path) -> None:
    train = str(folder / "train.txt")
    base = ["train", "neural", train, "-o", str(tmp_path / "m"), *SMALL]
    assert "--calibrate" in run(*base, "--calibrate").err
    columns = ["--columns", "word,end,label", "--labels", "end,label"]
    assert "one" in run(*base, *columns).err
    assert run(*base, "--order", "2").code == 2
