from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.seminars import FIELDS, Seminar, read_seminar, read_seminars, write_seminar
from mrflearn.io.spans import Span


def read(tmp_path, text):
    path = tmp_path / "001.txt"
    path.write_text(text, encoding="utf-8")
    return read_seminar(path)


def test_an_announcement_by_hand(tmp_path):
    seminar = read(
        tmp_path,
        "<0.1@cmu.edu>\n<paragraph><sentence>At <stime>5:00 p.m</stime>. in <location>DH 1"
        "</sentence></location>\n",
    )
    assert seminar.text == "<0.1@cmu.edu>\nAt 5:00 p.m. in DH 1\n"
    assert [seminar.text[m.start : m.end] for m in seminar.marks] == ["5:00 p.m", "DH 1"]
    words = [(span.label, seminar.tokens[span.start : span.end]) for span in seminar.fields]
    assert words == [("stime", ("5", ":", "00", "p", ".", "m")), ("location", ("DH", "1"))]
    assert seminar.tokens == tuple(seminar.text[a:b] for a, b in seminar.offsets)


def test_a_mark_inside_a_word_takes_the_whole_token(tmp_path):
    seminar = read(tmp_path, "by <speaker>Mel Siege</speaker>l today")
    assert seminar.fields == (Span(1, 3, "speaker"),)
    assert seminar.tokens[1:3] == ("Mel", "Siegel")


def test_a_mark_around_no_token_is_a_mark_and_no_field(tmp_path):
    seminar = read(tmp_path, "at <stime> </stime>5 <etime></etime>")
    assert seminar.marks == (Span(3, 4, "stime"), Span(6, 6, "etime"))
    assert seminar.fields == ()


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a\n<stime>b\nc", 2, "<stime> never closes"),
        ("a\nb</stime>\n", 2, "<stime> closes but was not open"),
        ("<stime>a\nb<stime>c</stime>\n</stime>", 2, "<stime> opens inside itself"),
    ],
)
def test_unmatched_fields_are_named(tmp_path, text, line, problem):
    with pytest.raises(DataError, match=rf"001\.txt:{line}: {problem}"):
        read(tmp_path, text)


@st.composite
def announcements(draw):
    text = draw(st.text("ab .\n<>\u00e9\x0c", max_size=30))
    marks = []
    for turn, label in enumerate(draw(st.permutations(FIELDS))):
        ends = draw(st.lists(st.integers(0, len(text)), max_size=6))
        ends = sorted(ends[: len(ends) // 2 * 2])
        pairs = zip(ends[::2], ends[1::2], strict=True)
        marks += [(a, turn, Span(a, b, label)) for a, b in pairs]
    return Seminar.of(text, [mark for _, _, mark in sorted(marks)])


@given(announcements())
def test_fields_that_cross_are_written_and_read_back(tmp_path_factory, seminar):
    path = tmp_path_factory.getbasetemp() / "announcement.txt"
    write_seminar(path, seminar)
    assert read_seminar(path) == seminar


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("a <sentence>", []),
        ("a <stime>b</stime>", []),
        ("a b", [Span(0, 1, "title")]),
        ("a b", [Span(0, 9, "stime")]),
        ("a b", [Span(0, 2, "stime"), Span(1, 3, "stime")]),
        ("a b", [Span(2, 3, "stime"), Span(0, 1, "stime")]),
    ],
)
def test_what_would_not_read_back_is_not_written(tmp_path, text, marks):
    with pytest.raises(DataError):
        write_seminar(tmp_path / "out", Seminar.of(text, marks))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_stands_for_its_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_text(name)
    texts = [s.text for s in read_seminars(tmp_path, tmp_path / "c.md")]
    assert texts == ["a.txt", "b.txt", "c.md"]


@pytest.mark.data
def test_counts_of_real_announcements(data_folder):
    found = list(read_seminars(data_folder / "seminars"))
    assert len(found) == 485
    # 105,999 if a tag is taken for a space, which parts words from the signs after them.
    assert sum(len(s.text.split()) for s in found) == 101_683
    for label, fields, files in [
        *[("stime", 982, 485), ("etime", 431, 227), ("location", 642, 464), ("speaker", 756, 409)]
    ]:
        counts = [sum(span.label == label for span in s.fields) for s in found]
        assert (sum(counts), sum(map(bool, counts))) == (fields, files), label


@pytest.mark.data
def test_real_announcements_are_written_back(data_folder, tmp_path):
    for path in sorted((data_folder / "seminars").iterdir()):
        write_seminar(tmp_path / "out", read_seminar(path))
        bare = re.sub(r"</?(sentence|paragraph)>", "", path.read_text(encoding="utf-8"))
        assert (tmp_path / "out").read_text(encoding="utf-8") == bare
