"""Words and characters by number."""

from __future__ import annotations

from mrflearn.features.word_numbers import (
    LONGEST_WORD,
    NUMBERED_FROM,
    PADDING,
    UNSEEN,
    WordNumbers,
    word_form,
)

TEXT = [["The", "cat", "of", "1984"], ["the", "Cat", "THE", "42"]]


def test_words_are_told_apart_by_their_form_alone() -> None:
    numbers = WordNumbers.of(TEXT)
    assert numbers.words == ("the", "cat", "of", "0000", "00")
    assert word_form("In-1996") == "in-0000"
    found = numbers([["THE", "ThE", "dog", "77"]])
    known = found.words[found.tokens].tolist()
    assert known == [NUMBERED_FROM, NUMBERED_FROM, UNSEEN, NUMBERED_FROM + 4]


def test_rare_words_are_left_out_and_known_ones_added() -> None:
    numbers = WordNumbers.of(TEXT, 2, ["dog", "cat"])
    assert numbers.words == ("the", "cat", "dog")
    assert numbers.sizes == (5, len({letter for own in TEXT for w in own for letter in w}) + 2)


def test_characters_are_as_they_are_written() -> None:
    numbers = WordNumbers.of(TEXT)
    found = numbers([["cat", "tac?", ""], [], ["cat"]])
    assert found.lengths.tolist() == [3, 0, 1]
    assert found.tokens.tolist() == [0, 1, 2, 0]
    place = numbers.character_number
    assert found.characters.tolist() == [
        [place["c"], place["a"], place["t"], PADDING],
        [place["t"], place["a"], place["c"], UNSEEN],
        [UNSEEN, PADDING, PADDING, PADDING],
    ]


def test_of_a_long_word_both_ends_are_read() -> None:
    numbers = WordNumbers.of([["abcdefgh"]])
    row = numbers([["a" * 50 + "h" * 50]]).characters
    half = LONGEST_WORD // 2
    ends = [numbers.character_number[letter] for letter in "ah"]
    assert row.tolist() == [[ends[0]] * half + [ends[1]] * half]


def test_no_sentences_have_no_words() -> None:
    found = WordNumbers.of(TEXT)([])
    assert found.tokens.shape == (0,)
    assert found.characters.shape == (0, 1)
