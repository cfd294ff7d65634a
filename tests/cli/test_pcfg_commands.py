"""Grammars of treebanks on the command line."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from mrflearn.datasets.english import sample_documents
from mrflearn.io.ptb import read_trees, write_trees
from support.command import run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees to learn from and to test with, the test sentences as text, and a trained model."""
    place = tmp_path_factory.mktemp("pcfg")
    trees = [s.tree for d in sample_documents(40, seed=0) for s in d.sentences]
    write_trees(place / "train.mrg", trees[:-10])
    write_trees(place / "test.mrg", trees[-10:])
    lines = [" ".join(tree.words) for tree in trees[-10:]]
    (place / "test.txt").write_text("\n".join(lines) + "\n")
    done = run("train", "pcfg", str(place / "train.mrg"), "-o", str(place / "model"), "--json")
    assert done.json()["rules"] > 100
    return place


def test_parsed_text_is_as_good_as_evaluated(folder, tmp_path):
    done = run("parse", str(folder / "model"), str(folder / "test.txt"))
    (tmp_path / "parsed.mrg").write_text(done.out)
    parsed = list(read_trees(tmp_path / "parsed.mrg"))
    truth = list(read_trees(folder / "test.mrg"))
    assert [tree.words for tree in parsed] == [tree.words for tree in truth]
    report = run("evaluate", str(folder / "model"), str(folder / "test.mrg"), "--json").json()
    assert report["sentences"] == 10
    assert report["unparsed"] == 0
    assert report["f1"] > 0.7
    told = run("evaluate", str(folder / "model"), str(folder / "test.mrg")).out
    assert "Labelled brackets:" in told
    assert ["f1", f"{100 * report['f1']:.2f}", "%"] in [line.split() for line in told.splitlines()]


def test_other_answers(folder, tmp_path):
    model = str(folder / "model")
    scored = run("score", model, str(folder / "test.txt"), "--json").json()
    assert scored["perplexity"] > 1
    assert scored["sentences"] == 10
    assert "perplexity" in run("score", model, str(folder / "test.txt")).out
    following = run("next-word", model, "the", "--json").json()
    assert len(following["next"]) == 10
    assert run("sample", model, "-n", "3", "-o", str(tmp_path / "new.mrg")).code == 0
    assert len(list(read_trees(tmp_path / "new.mrg"))) == 3
    plain = run("sample", model, "-n", "2").out.splitlines()
    assert run("sample", model, "-n", "2", "--json").json()["samples"] == plain
    assert run("inspect", model, "--json").json()["class"] == "PCFG"
    assert "rule at the root" in run("inspect", model).out


def test_the_best_trees_come_with_their_probabilities(folder):
    model, text = str(folder / "model"), str(folder / "test.txt")
    best = run("parse", model, text).out.splitlines()
    lines = run("parse", model, text, "-n", "2").out.splitlines()
    assert [after for line, after in pairwise(lines) if "# 0" in line] == best
    record = json.loads(run("parse", model, text, "-n", "2", "--json").out.splitlines()[0])
    first, second = record["nbest"]
    assert record["tree"] == first["tree"] == best[0] != second["tree"]
    assert 1 >= first["probability"] >= second["probability"] > 0
    assert lines[0] == f"# 0 {first['probability']:.6f}"


def test_unknown_words_are_reported(folder, tmp_path):
    """Those of the treebank at the end of training, those of a text by parse, score, next-word."""
    trees, model = str(folder / "train.mrg"), str(tmp_path / "model")
    assert "<unk>" not in run("train", "pcfg", trees, "-o", model).err
    told = run("train", "pcfg", trees, "-o", model, "--overwrite", "--min-count", "2").err
    words = Counter(word for tree in read_trees(trees) for word in tree.words)
    once = sum(times == 1 for times in words.values())
    assert f"{once:,} words ({once:,} occurrences) are read as <unk>, by --min-count 2" in told
    (tmp_path / "new.txt").write_text("the zebra was a zebra .\n")
    assert "read as <unk>: zebra\n" in run("parse", model, str(tmp_path / "new.txt")).err
    assert "2 of 6 words" in run("score", model, str(tmp_path / "new.txt")).err
    assert "read as <unk>: zebra\n" in run("next-word", model, "the", "zebra").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score", "MODEL", "TEXT", "--method", "ais"), "--method: has no effect"),
        (("evaluate", "MODEL", "TREES", "--calibration"), "--calibration: has no effect"),
        (("next-word", "MODEL", "the", "--document", "TEXT"), "--document: has no effect"),
    ],
)
def test_options_without_effect_are_refused(folder, words, message):
    names = {"MODEL": "model", "TEXT": "test.txt", "TREES": "test.mrg"}
    done = run(*(str(folder / names[word]) if word in names else word for word in words))
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", " ").split())


def test_bad_input_is_one_line(folder, tmp_path):
    (tmp_path / "empty.mrg").write_text("")
    done = run("train", "pcfg", str(tmp_path / "empty.mrg"), "-o", str(tmp_path / "m"))
    assert (done.code, done.out) == (1, "")
    assert "no words" in done.err
    (tmp_path / "broken.mrg").write_text("(S (NN dog)")
    done = run("evaluate", str(folder / "model"), str(tmp_path / "broken.mrg"))
    assert done.code == 1
    assert "never ends" in done.err
