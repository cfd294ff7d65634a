from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.features.moments import lattice_moments
from mrflearn.features.moments_file import read_mrflm, read_mrflm_vocabulary, write_mrflm
from mrflearn.io.corpus import Vocabulary
from support.moments import count_sentences

WORDS = Vocabulary(("a", "<S>", "b", "<unk>"))
# The ring of the corpus "a b a", K = 1, is <S> a b a: four pairs, (b, a) among them once.
BY_HAND = "4 2\n4\n4\n4\n0 1 1\n0 2 1\n1 0 1\n2 0 1\n"


def test_the_layout_is_the_authors(tmp_path):
    write_mrflm(count_sentences([["a", "b", "a"]], WORDS, 1), tmp_path / "moments.dat")
    assert (tmp_path / "moments.dat").read_text() == BY_HAND


def test_frequent_pairs_come_first(tmp_path):
    write_mrflm(count_sentences([["a", "a", "b", "b", "b"]], WORDS, 1), tmp_path / "moments.dat")
    assert (tmp_path / "moments.dat").read_text().splitlines()[4] == "2 2 2"


def test_what_was_written_is_read(tmp_path):
    moments = count_sentences([["a", "b", "b"], ["c", "a"]], WORDS, 3)
    write_mrflm(moments, tmp_path / "moments.dat")
    read = read_mrflm(tmp_path / "moments.dat", WORDS)
    assert (read.offsets, read.separator) == (moments.offsets, moments.separator)
    assert (read.sentences, read.words) == (2, 5)
    np.testing.assert_array_equal(read.unary, moments.unary)
    for mine, theirs in zip(read.pairs, moments.pairs, strict=True):
        np.testing.assert_array_equal(mine.codes(4), theirs.codes(4))
        np.testing.assert_array_equal(mine.count, theirs.count)
    assert len(read.lengths) == 0


def test_without_a_vocabulary_there_is_no_separator(tmp_path):
    (tmp_path / "moments.dat").write_text(BY_HAND)
    assert read_mrflm(tmp_path / "moments.dat").separator is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Is it complete"),
        ("4 1\n4\n", "no pair"),
        ("1 x", "whole numbers"),
        ("99999999999999999999 2", "whole numbers"),
        ("4 2\n4 5\n0", "one vocabulary"),
        (BY_HAND[:-7], "Is it complete"),
        (BY_HAND + "1", "too many"),
        (BY_HAND.replace("2 0 1", "9 0 1"), "outside"),
        (BY_HAND.replace("2 0 1", "2 0 2"), "N is 4"),
        ("4 2 4 4 -1", "Is it complete"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, message):
    (tmp_path / "moments.dat").write_text(text)
    with pytest.raises(DataError, match=message):
        read_mrflm(tmp_path / "moments.dat")


def test_a_vocabulary_of_another_size_is_refused(tmp_path):
    (tmp_path / "moments.dat").write_text(BY_HAND)
    with pytest.raises(DataError, match="has 2 words"):
        read_mrflm(tmp_path / "moments.dat", Vocabulary(("<S>", "<unk>")))


def test_an_image_has_no_such_layout(tmp_path):
    with pytest.raises(DataError, match="offsets 1, 2"):
        write_mrflm(lattice_moments([[0, 1]]), tmp_path / "moments.dat")


def test_the_authors_vocabulary(tmp_path):
    (tmp_path / "vocab.dat").write_text("0 a 2\n1 <S> 2\n2 b 1\n3 <unk> 0\n")
    assert read_mrflm_vocabulary(tmp_path / "vocab.dat") == WORDS


@pytest.mark.parametrize(
    ("text", "message"),
    [("0 a 2\n2 b 1\n", r"vocab\.dat:2: expected '1 word count'"), ("0 a 2\n", "<S>")],
)
def test_broken_vocabularies_are_refused(tmp_path, text, message):
    (tmp_path / "vocab.dat").write_text(text)
    with pytest.raises(DataError, match=message):
        read_mrflm_vocabulary(tmp_path / "vocab.dat")


def test_one_long_number_does_not_widen_all(tmp_path):
    path = tmp_path / "moments.dat"
    path.write_text("1 2 " + "9" * 100_000 + " 1" * 100_000)  # as an array of bytes: 10 GB
    with pytest.raises(DataError, match=r"moments\.dat"):
        read_mrflm(path)
