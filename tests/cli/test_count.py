"""Counts of a text: kept, learned from, and in the layout of another program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.features.moments import Moments, count_text
from mrflearn.features.moments_file import load_moments
from mrflearn.io.corpus import Vocabulary
from support.command import run

TEXT = "a b a\nb c\n\na a d\n" * 5


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def assert_same(one: Moments, other: Moments) -> None:
    assert (one.offsets, one.vocabulary) == (other.offsets, other.vocabulary)
    np.testing.assert_array_equal(one.unary, other.unary)
    for mine, theirs in zip(one.pairs, other.pairs, strict=True):
        np.testing.assert_array_equal(mine.codes(one.states), theirs.codes(one.states))
        np.testing.assert_array_equal(mine.count, theirs.count)


def test_counts_are_those_of_the_text(text: Path, tmp_path: Path) -> None:
    kept = tmp_path / "text.moments"
    options = ("--context", "3", "--vocabulary-size", "4", "--json")
    answer = run("count", str(text), "-o", str(kept), *options).json()
    expected = count_text(text, vocabulary=Vocabulary(("<S>", "<unk>", "a", "b")), context=3)
    assert_same(load_moments(kept), expected)
    assert answer["words"] == expected.words
    assert answer["pairs"] == [len(pair.count) for pair in expected.pairs]
    told = run("count", str(text), "-o", str(kept), "--overwrite").facts()
    assert (told["words"], told["sentences"]) == ("40", "15")


def test_a_held_out_text_is_counted_over_the_same_words(text: Path, tmp_path: Path) -> None:
    other, kept, like = (tmp_path / name for name in ("other.txt", "o.moments", "text.moments"))
    other.write_text("a z\n")
    assert run("count", str(text), "--context", "1", "-o", str(like)).code == 0
    assert run("count", str(other), "--like", str(like), "-o", str(kept)).code == 0
    assert load_moments(kept).vocabulary == load_moments(like).vocabulary
    options = ("--context", "1", "--dims", "2", "--max-iterations", "3", "-q")
    trained = run(
        "train", "lm", str(like), "--validation", str(kept), *options, "-o", str(tmp_path / "m")
    )
    assert trained.code == 0, trained.err
    words = ("--like", str(like), "--context", "1", "--overwrite", "-o", str(kept))
    refused = run("count", str(other), *words)
    assert (refused.code, "those of --like" in refused.err) == (2, True)


def test_there_and_back_to_the_layout_of_mrflm(text: Path, tmp_path: Path) -> None:
    kept, back, theirs, words = (
        str(tmp_path / name) for name in ("t.moments", "b.moments", "moments.dat", "vocab.dat")
    )
    assert run("count", str(text), "-o", kept).code == 0
    assert run("convert", kept, theirs, "--vocabulary", words).code == 0
    assert run("convert", theirs, back, "--vocabulary", words).code == 0
    assert_same(load_moments(back), load_moments(kept))
    options = ("--dims", "2", "--max-iterations", "3", "-q", "--json", "--overwrite")
    bounds = [
        run("train", "lm", source, *options, "-o", str(tmp_path / "m")).json()[
            "train_bound_per_position"
        ]
        for source in (kept, back)
    ]
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("count", "TEXT", "-o", "x.txt"), 2, "a name in .moments"),
        (("count", "-", "-o", "x.moments"), 1, "flows by once only"),
        (("convert", "KEPT", "x.dat"), 1, "--vocabulary FILE"),
        (("convert", "KEPT", "x.txt", "--vocabulary", "v"), 1, "between .moments and the .dat"),
        (("convert", "KEPT", "x.dat", "--to", "text"), 2, "for files of sentences"),
        (("convert", "TEXT", "x.conll", "--vocabulary", "v"), 2, "only for counts"),
        (("train", "lm", "KEPT", "--min-count", "2", "-o", "m"), 2, "own words already"),
        (("train", "lm", "KEPT", "--context", "3", "-o", "m"), 1, "try --context 2"),
        (("train", "vectors", "KEPT", "--vocabulary-size", "5", "-o", "m"), 2, "own words already"),
    ],
)
def test_mistakes_are_told(
    words: tuple[str, ...], code: int, says: str, text: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "t.moments"
    assert run("count", str(text), "-o", str(kept)).code == 0
    names = {"TEXT": str(text), "KEPT": str(kept)}
    found = run(*(names.get(word, word) for word in words))
    assert (found.code, says in " ".join(found.err.split())) == (code, True), found.err


def test_counts_are_replaced_only_on_request(text: Path, tmp_path: Path) -> None:
    kept = tmp_path / "text.moments"
    kept.write_bytes(b"of another text")
    refused = run("count", str(text), "-o", str(kept))
    assert refused.code == 1
    assert "--overwrite" in refused.err
    assert kept.read_bytes() == b"of another text"
    assert run("count", str(text), "-o", str(kept), "--overwrite").code == 0
    assert load_moments(kept).words == 40


def test_counts_without_a_place_are_found_before_the_text_is_read(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"\xff\xfe is no text")
    for place in (text / "c.moments", tmp_path / "missing" / "c.moments"):
        refused = run("count", str(text), "-o", str(place))
        assert refused.code == 1
        assert f"{place} cannot be written" in refused.err
