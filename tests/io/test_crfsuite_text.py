from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.crfsuite_text import AttributeSequence, read_crfsuite, write_crfsuite


def read(tmp_path, text):
    path = tmp_path / "items.txt"
    path.write_text(text, encoding="utf-8")
    return list(read_crfsuite(path))


@pytest.mark.parametrize(
    ("field", "attribute"),
    [
        ("w=dog", ("w=dog", 1.0)),
        ("w=dog:0.5", ("w=dog", 0.5)),
        ("w=dog:", ("w=dog", 1.0)),
        ("w=dog:-1e3", ("w=dog", -1000.0)),
        (r"w=a\:b", ("w=a:b", 1.0)),
        (r"w=a\:b:2", ("w=a:b", 2.0)),
        (r"w=\\:2", ("w=\\", 2.0)),
        (r"w=\\\:2", ("w=\\:2", 1.0)),
        (r"w=\n", (r"w=\n", 1.0)),
        ("w=a b", ("w=a b", 1.0)),
    ],
)
def test_attributes_as_crfsuite_reads_them(tmp_path, field, attribute):
    (sequence,) = read(tmp_path, f"O\t{field}\n")
    assert sequence == AttributeSequence(("O",), ((attribute,),))


def test_sequences_end_at_blank_lines(tmp_path):
    sequences = read(tmp_path, "\nA\ta\nB\n\n\nC\t\tc\t\n")
    assert sequences == [
        AttributeSequence(("A", "B"), ((("a", 1.0),), ())),
        AttributeSequence(("C",), ((("c", 1.0),),)),
    ]
    assert [len(sequence) for sequence in sequences] == [2, 1]


def test_weights_of_repeated_attributes_add_up():
    item = (("a", 1.0), ("b", 2.0), ("a", 0.5))
    assert AttributeSequence(("O",), (item,)).features == [{"a": 1.5, "b": 2.0}]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("O\ta:x", "'x' is no weight for attribute 'a'"),
        ("O\ta:1:2", "'1:2' is no weight"),
        ("O\ta:nan", "is no weight"),
        ("O\ta:1e999", "is no weight"),
        ("O\ta:1_0", "is no weight"),
        ("O\t:1", "empty label or attribute name"),
        ("\ta", "empty label or attribute name"),
        ("B:NP\ta", "label 'B' has a weight"),
    ],
)
def test_broken_lines_are_named(tmp_path, line, problem):
    with pytest.raises(DataError, match=rf"items\.txt:3: .*{problem}"):
        read(tmp_path, f"O\ta\n\n{line}\n")


names = st.text(st.sampled_from(":\\ab =\u00e9\u00a0#@\x1c"), min_size=1, max_size=5)
weights = st.floats(allow_nan=False, allow_infinity=False)
lines = st.tuples(names, st.lists(st.tuples(names, weights), max_size=3).map(tuple))


@given(st.lists(st.lists(lines, min_size=1, max_size=3), max_size=3))
def test_any_names_and_weights_are_read_back(tmp_path_factory, drawn):
    sequences = [AttributeSequence(*zip(*items, strict=True)) for items in drawn]
    path = tmp_path_factory.getbasetemp() / "crfsuite.txt"
    write_crfsuite(path, sequences)
    assert list(read_crfsuite(path)) == sequences


@pytest.mark.parametrize(
    "item", [(("", 1.0),), (("a\tb", 1.0),), (("a\n", 1.0),), (("a", float("inf")),)]
)
def test_what_would_not_read_back_is_not_written(tmp_path, item):
    with pytest.raises(DataError):
        write_crfsuite(tmp_path / "out", [AttributeSequence(("O",), (item,))])
    assert list(tmp_path.iterdir()) == []


def test_labels_and_items_go_together():
    with pytest.raises(DataError, match="1 labels for 0 items"):
        AttributeSequence(("O",), ())
