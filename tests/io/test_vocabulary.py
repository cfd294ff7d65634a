from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.corpus import LINE_END_ID, Vocabulary, count_words

COUNTS = {"the": 5, "a": 3, "zoo": 3, "<unk>": 9, "rare": 1}


def test_order_is_by_count_then_by_word():
    assert Vocabulary.from_counts(COUNTS).words == ("<S>", "<unk>", "the", "a", "zoo", "rare")


def test_size_counts_the_special_entries():
    assert Vocabulary.from_counts(COUNTS, size=4).words == ("<S>", "<unk>", "the", "a")


def test_min_count():
    chosen = Vocabulary.from_counts(COUNTS, min_count=3)
    assert chosen.words == ("<S>", "<unk>", "the", "a", "zoo")


def test_words_left_out_are_counted():
    """Not the text's own <unk>, which is a word as it is; its <S> is read as unknown."""
    assert Vocabulary.from_counts(COUNTS).left_out == (0, 0)
    assert Vocabulary.from_counts(COUNTS, size=4).left_out == (2, 4)
    assert Vocabulary.from_counts(COUNTS | {"<S>": 2}, min_count=3).left_out == (2, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("<S>", "a"), "<unk>"),
        (("<unk>",), "<S>"),
        (("<S>", "<unk>", "a", "a"), "2 times"),
        ((), "<S>"),
    ],
)
def test_broken_vocabularies_are_refused(words, message):
    with pytest.raises(DataError, match=message):
        Vocabulary(words)


def test_a_size_without_room_is_refused():
    with pytest.raises(DataError, match="3 or more"):
        Vocabulary.from_counts(COUNTS, size=2)


def test_unseen_words_and_literal_separators_are_unknown():
    vocabulary = Vocabulary(("the", "<unk>", "<S>"))
    ids = vocabulary.encode(["the", "cat", "<S>", "<unk>"])
    assert ids.tolist() == [0, 1, 1, 1]
    assert vocabulary.decode(ids) == ["the", "<unk>", "<unk>", "<unk>"]
    assert "cat" not in vocabulary
    assert "the" in vocabulary


@given(st.lists(st.lists(st.sampled_from(["a", "é", "zz", "<S>", "new"])), max_size=5))
def test_blocks_and_words_get_the_same_ids(sentences):
    vocabulary = Vocabulary(("<S>", "é", "<unk>", "a", "zz"))
    text = "".join(" ".join(sentence) + "\n" for sentence in sentences).encode()
    expected = [[*vocabulary.encode(sentence), LINE_END_ID] for sentence in sentences]
    flat = np.array([index for line in expected for index in line], dtype=np.int32)
    np.testing.assert_array_equal(vocabulary.encode_block(text), flat)


def test_save_and_load(tmp_path):
    vocabulary = Vocabulary.from_counts(Counter(["é", "\u00a0x", "tab"]))
    vocabulary.save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt") == vocabulary


def test_a_file_that_is_no_vocabulary_is_named(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"words\.txt: .*<S>"):
        Vocabulary.load(tmp_path / "words.txt")


def test_words_with_line_ends_are_not_saved(tmp_path):
    with pytest.raises(DataError, match="one line"):
        Vocabulary(("<S>", "<unk>", "a\nb")).save(tmp_path / "words.txt")
    assert not (tmp_path / "words.txt").exists()


def test_count_words(tmp_path):
    (tmp_path / "text").write_text("b a\nb\u00a0c b é\n")
    assert count_words(tmp_path / "text") == {"a": 1, "b": 2, "b\u00a0c": 1, "é": 1}
