"""The commands of word vectors, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.estimators.word_vectors import WordVectors
from mrflearn.io.vectors import read_vectors
from support.command import run

SEA, LAND = ["ship", "sail", "wave", "salt"], ["hill", "tree", "path", "deer"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    draw = np.random.default_rng(0)
    kinds = [SEA, LAND]
    lines = [" ".join(["the", *draw.choice(kinds[draw.integers(2)], 3)]) for _ in range(200)]
    path = tmp_path_factory.mktemp("vectors") / "text.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(text) -> Path:
    folder = text.parent / "model"
    found = run(
        *("train", "vectors", str(text), "-o", str(folder), "--dims", "2", "--context", "4"),
        *("--quiet", "--json"),
    )
    assert found.code == 0, found.err
    answer = found.json()
    assert (answer["vocabulary"], answer["words"], answer["sentences"]) == (11, 800, 200)
    assert (folder / "report.html").stat().st_size > 1000
    return folder


def test_training_in_words(text, tmp_path):
    found = run("train", "vectors", str(text), "-o", str(tmp_path / "m"), "--dims", "2")
    assert found.code == 0, found.err
    told = found.facts()
    names = ("vocabulary", "dims", "words", "sentences")
    assert [told[name] for name in names] == ["11", "2", "800", "200"]


@pytest.mark.usefixtures("shared_processes")
def test_every_source_gives_the_same_vectors(text, model, tmp_path):
    lines = text.read_text().splitlines(keepends=True)
    parts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, some in zip(parts, (lines[:70], lines[70:]), strict=True):
        path.write_text("".join(some))
    kept = tmp_path / "text.moments"
    assert run("count", str(text), "--context", "4", "-o", str(kept)).code == 0
    sources = ([kept], parts, [*parts, "--jobs", "2"])
    expected = WordVectors.load(model).vectors_
    for source in sources:
        target = tmp_path / "m"
        options = ("-o", str(target), "--dims", "2", "--context", "4", "-q", "--overwrite")
        assert run("train", "vectors", *map(str, source), *options).code == 0
        np.testing.assert_allclose(WordVectors.load(target).vectors_, expected, atol=1e-5)


def test_neighbours_analogies_and_export(model, tmp_path):
    found = run("neighbors", str(model), "ship", "-n", "3", "--json").json()
    assert {word for word, _ in found["ship"]} == {"sail", "wave", "salt"}
    assert run("neighbors", str(model), "ship", "hill", "sail", "--analogy").code == 0
    assert run("convert", str(model), str(tmp_path / "v.txt")).code == 0
    assert "deer" in read_vectors(tmp_path / "v.txt").names


def test_agreement_with_people(model, tmp_path):
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("ship sail 9\nhill deer 8\nShip tree 1\nwave path 2\nship whale 7\n")
    found = run("evaluate", str(model), str(pairs), "--json").json()
    assert (found["pairs"], found["of"]) == (4, 5)
    assert found["spearman"] > 0.5
    told = run("evaluate", str(model), str(pairs)).out.splitlines()
    assert [line.split()[-1] for line in told[1:]] == ["4", "5"]
    pairs.write_text("ship whale 7\n")
    found = run("evaluate", str(model), str(pairs))
    assert (found.code, "needs three" in found.err) == (1, True)


def test_analogies_answered_right(model, tmp_path):
    questions = tmp_path / "questions.txt"
    lines = [f"{a} {b} {c} {d}" for a, b in zip(SEA, LAND, strict=True)
             for c, d in zip(SEA, LAND, strict=True) if a != c]  # fmt: skip
    questions.write_text(": kinds\n" + "\n".join([*lines, "ship hill whale path"]) + "\n")
    found = run("evaluate", str(model), str(questions), "--json").json()
    assert (found["answerable"], found["of"]) == (12, 13)
    told = run("evaluate", str(model), str(questions)).out.splitlines()
    assert [line.split()[-1] for line in told[1:]] == ["12", "13"]
    questions.write_text("ship hill whale path\n")
    found = run("evaluate", str(model), str(questions))
    assert (found.code, "none of 1 questions" in found.err) == (1, True)


def test_inspect_and_its_map(model, tmp_path):
    picture = tmp_path / "map.png"
    found = run("inspect", str(model), "-n", "3", "--plot", str(picture))
    assert found.code == 0, found.err
    assert picture.stat().st_size > 1000
    assert len(run("inspect", str(model), "-n", "3", "--json").json()["nearest"]) == 3
    assert run("inspect", str(model), "--plot", str(tmp_path / "map.txt")).code == 1
    assert run("inspect", str(model), "--edges").code == 2


def test_what_vectors_cannot_do_is_told(model, text, tmp_path):
    for arguments in (("score", str(model), str(text)), ("sample", str(model))):
        found = run(*arguments)
        assert (found.code, "mrflearn neighbors" in found.err) == (1, True)
    (tmp_path / "prose.txt").write_text("once upon a time there was a ship\n")
    found = run("evaluate", str(model), str(tmp_path / "prose.txt"))
    assert (found.code, "not a score" in found.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("empty.txt",), 1, "no words"),
        (("column.txt",), 1, "one word a line"),
        (("x.moments", "column.txt"), 1, "alone"),
        (("x.moments", "--jobs", "2"), 2, "--jobs"),
        (("column.txt", "--engine", "spark"), 2, "--master"),
        (("missing.txt",), 1, "missing.txt"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
def test_mistakes(tmp_path, monkeypatch, arguments, code, complaint):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n\n")
    Path("column.txt").write_text("a\nb\n")
    Path("x.moments").touch()
    found = run("train", "vectors", *arguments, "-o", "m", "-q")
    assert found.code == code
    assert complaint in found.err
