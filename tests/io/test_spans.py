from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.spans import (
    SCHEMES,
    Span,
    are_chunk_tags,
    convert_tags,
    spans_to_tags,
)
from mrflearn.io.spans import tags_to_spans as read_tags


def conlleval(tags):
    """The chunks by the scorer's table of tag pairs that end and begin one, written out."""
    ends = {*("BB", "BO", "BS", "IB", "IO", "IS"), *("E" + x for x in "BIOES")}
    ends |= {"S" + x for x in "BIOES"}
    begins = {x + y for x in "BIOES" for y in "BS"}
    begins |= {x + y for x in "OES" for y in "IE"}
    spans, start = [], None
    before, label_before = "O", ""
    for position, tag in enumerate([*tags, "O"]):
        letter, _, label = tag.partition("-")
        changed = label != label_before
        if start is not None and (before + letter in ends or (before != "O" and changed)):
            spans.append((start, position, label_before))
            start = None
        if before + letter in begins or (letter != "O" and changed):
            start = position
        before, label_before = letter, label
    return tuple(spans)


ALL_TAGS = ["O", *(f"{letter}-{label}" for letter in "BIES" for label in "XY")]


@pytest.mark.parametrize("length", range(5))
def test_every_short_sequence_reads_as_the_scorer_reads_it(length):
    for tags in product(ALL_TAGS, repeat=length):
        assert read_tags(tags) == conlleval(tags), tags


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O I-X I-X O", [(1, 3, "X")]),
        ("B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("I-X B-X", [(0, 1, "X"), (1, 2, "X")]),
        ("S-X I-X E-X I-X", [(0, 1, "X"), (1, 3, "X"), (3, 4, "X")]),
        ("E-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("B-NP-SBJ I-NP-SBJ", [(0, 2, "NP-SBJ")]),
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
        ("", []),
    ],
)
def test_readings_by_hand(tags, spans):
    assert list(read_tags(tags.split())) == spans


@st.composite
def flat_chunks(draw):
    position, spans = 0, []
    for _ in range(draw(st.integers(0, 5))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 3))
        spans.append(Span(start, position, draw(st.sampled_from(["X", "Y", "X-1", ""]))))
    return tuple(spans), position + draw(st.integers(0, 2))


@given(flat_chunks(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES), st.randoms())
def test_chunks_survive_every_scheme_and_every_conversion(chunks, first, second, random):
    spans, length = chunks
    shuffled = random.sample(spans, len(spans))
    tags = spans_to_tags(shuffled, length, first)
    assert len(tags) == length
    assert read_tags(tags) == read_tags(tags, first) == spans
    converted = convert_tags(tags, to=second, scheme=first)
    assert converted == spans_to_tags(spans, length, second)
    assert convert_tags(converted, to=first) == tags


def test_schemes_as_in_the_books():
    spans = [Span(0, 3, "X"), Span(3, 4, "X"), Span(5, 6, "Y")]
    tags = {scheme: " ".join(spans_to_tags(spans, 7, scheme)) for scheme in SCHEMES}
    assert tags == {
        "IOB1": "I-X I-X I-X B-X O I-Y O",
        "IOB2": "B-X I-X I-X B-X O B-Y O",
        "BIOES": "B-X I-X E-X S-X O S-Y O",
    }


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", range(4))
def test_strict_reading_takes_what_the_scheme_writes_and_nothing_else(scheme, length):
    for tags in product(ALL_TAGS, repeat=length):
        if spans_to_tags(conlleval(tags), length, scheme) == tags:
            assert read_tags(tags, scheme) == conlleval(tags)
        else:
            with pytest.raises(DataError, match=f"{scheme} would have"):
                read_tags(tags, scheme)


def test_a_strict_complaint_says_where_and_what():
    with pytest.raises(DataError, match=r"tag 2 is 'I-Y' after B-X; IOB2 would have 'B-Y'"):
        read_tags(["O", "B-X", "I-Y"], "IOB2")


@pytest.mark.parametrize("tag", ["X", "NP", "-X-", "b-NP", "O-NP", "", "BI-NP"])
def test_what_is_no_tag_is_refused(tag):
    with pytest.raises(DataError, match="is no chunk tag"):
        read_tags(["O", tag])


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ([(0, 2, "X"), (1, 3, "X")], "overlap"),
        ([(1, 1, "X")], "empty or not within"),
        ([(2, 5, "X")], "empty or not within"),
        ([(-1, 2, "X")], "empty or not within"),
    ],
)
def test_impossible_chunks_are_refused(spans, problem):
    with pytest.raises(DataError, match=problem):
        spans_to_tags(spans, 4)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(DataError, match="no tagging scheme 'BILOU'"):
        spans_to_tags([], 3, "BILOU")


def test_which_labels_are_chunk_tags() -> None:
    assert are_chunk_tags(["O", "B-NP", "I-NP"])
    assert are_chunk_tags(["S-NP"])
    assert not are_chunk_tags(["O"])
    assert not are_chunk_tags(["NN", "B-NP"])
    assert not are_chunk_tags([])
