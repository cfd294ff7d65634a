"""Items are read as python-crfsuite reads them, and every mistake names its place."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.features.features import CompiledFeatures, Numbering, compile_features
from support.work import CountedElements


def read(item: Any) -> dict[str, float]:
    """The attributes of one item by name, values of repeated ones added."""
    compiled = compile_features([[item]])
    names = list(compiled.names)
    values = [1.0] * len(compiled.attributes)
    if compiled.values is not None:
        values = compiled.values.double().tolist()
    found: dict[str, float] = {}
    for number, value in zip(compiled.attributes.tolist(), values, strict=True):
        found[names[number]] = found.get(names[number], 0.0) + value
    return found


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (["a", "b"], {"a": 1, "b": 1}),
        (("a", "a"), {"a": 2}),
        ({"a"}, {"a": 1}),
        ({"a": "b"}, {"a:b": 1}),
        ({"a": 2.5, "b": 1}, {"a": 2.5, "b": 1}),
        ({"a": True, "c": False}, {"a": 1, "c": 0}),
        ({"a": {"b": "c", "d": 2.5, "e": {"f": 1}}}, {"a:b:c": 1, "a:d": 2.5, "a:e:f": 1}),
        ({"a": ["x", "y"]}, {"a:x": 1, "a:y": 1}),
        ({"a": {"x", "y"}}, {"a:x": 1, "a:y": 1}),
        ({"a": {"b": ["c", "d"]}}, {"a:b:c": 1, "a:b:d": 1}),
        ({"a": [], "b": {}}, {}),
        ({}, {}),
        ([], {}),
        ({"a": ""}, {"a:": 1}),
        ({b"a": b"q"}, {"a:q": 1}),
        ({"a:b": "c:d"}, {"a:b:c:d": 1}),
        ({"a": np.float32(2), "b": np.array(0.5)}, {"a": 2, "b": 0.5}),
        ({"é": "ü"}, {"é:ü": 1}),
    ],
)
def test_items_mean_what_they_mean_to_crfsuite(item: Any, expected: dict[str, float]) -> None:
    assert read(item) == expected


# C strings end at a zero byte, so python-crfsuite cannot hold one.
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
ITEMS = st.one_of(
    st.lists(st.text(LETTERS, min_size=1, max_size=3), max_size=4),
    st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=3),
        st.recursive(
            st.one_of(
                st.text(LETTERS, max_size=3),
                st.booleans(),
                st.integers(-5, 5),
                st.floats(-4, 4, width=16),
                st.lists(st.text(LETTERS, max_size=2), max_size=3),
            ),
            lambda inner: st.dictionaries(
                st.text(LETTERS, min_size=1, max_size=2), inner, max_size=3
            ),
            max_leaves=4,
        ),
        max_size=4,
    ),
)


@given(ITEMS)
def test_any_item_is_read_as_python_crfsuite_reads_it(item: Any) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    expected = pycrfsuite.ItemSequence([item]).items()[0]
    found = read(item)
    # Its own listing shows the last value of a name that comes twice; ours adds them up.
    assert found.keys() == expected.keys()
    compiled = compile_features([[item]])
    if len(set(compiled.attributes.tolist())) == len(compiled.attributes):
        assert found == pytest.approx(expected)


@given(st.lists(st.lists(ITEMS, max_size=4), max_size=4))
def test_whole_lists_and_single_items_give_the_same(sequences: list[list[Any]]) -> None:
    at_once = compile_features(sequences)
    one_by_one = compile_features([(item for item in own) for own in sequences])
    assert list(at_once.names) == list(one_by_one.names)
    assert at_once.attributes.tolist() == one_by_one.attributes.tolist()
    assert at_once.ends.tolist() == one_by_one.ends.tolist()
    assert at_once.lengths.tolist() == one_by_one.lengths.tolist() == [len(s) for s in sequences]
    values = [None if own.values is None else own.values.tolist() for own in (at_once, one_by_one)]
    assert values[0] == values[1]


ENTRIES = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.text("xy", max_size=2),
        st.booleans(),
        st.sampled_from([0, 1, 2.5, b"x"]),
        st.just(("x", "y")),
        st.just(["x"]),
    ),
)


@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=4), st.booleans())
def test_whole_lists_of_dicts_and_single_dicts_give_the_same(
    sequences: list[list[Any]], closed: bool
) -> None:
    names = ["a", "a:x", "b:", "c:y", "d"]
    readings = []
    for given_sequences in (sequences, [(item for item in own) for own in sequences]):
        numbering = Numbering(names, closed=True) if closed else None
        found = compile_features(given_sequences, numbering)
        values = torch.ones(len(found.attributes)) if found.values is None else found.values
        tokens = list(
            zip(found.owner.tolist(), found.attributes.tolist(), values.tolist(), strict=True)
        )
        # A value of 0 of a known name says nothing once names are closed.
        readings.append([entry for entry in tokens if entry[2] != 0 or not closed])
    assert readings[0] == readings[1]


def test_numpy_strings_are_strings() -> None:
    assert list(compile_features([[{"w": np.str_("dog")}]]).names) == ["w:dog"]


def test_values_are_stored_only_where_needed() -> None:
    assert compile_features([[["a"], {"b": "c"}]]).values is None
    mixed = compile_features([[["a"], {"b": 2.0}, {"c": ["d", "e"], "f": {"g": 3}}]])
    assert mixed.values is not None
    assert mixed.values.tolist() == [1, 2, 1, 1, 3]


def test_a_closed_numbering_drops_what_it_does_not_know() -> None:
    names = Numbering(["a", "b"], closed=True)
    compiled = compile_features([[["z", "b"], ["z"], {"a": 3.0, "q": 1.0}]], names)
    assert compiled.attributes.tolist() == [1, 0]
    assert compiled.ends.tolist() == [1, 1, 2]
    assert compiled.values is not None
    assert compiled.values.tolist() == [1, 3]
    assert len(names) == 2


def dense_data() -> CompiledFeatures:
    items = [{"w": "x", "v": np.array([1.0, 2.0])}, {"w": "y"}, {"v": np.array([3.0, 4.0])}]
    return compile_features([items])


def test_dense_blocks_become_columns_with_zeros_where_absent() -> None:
    compiled = dense_data()
    assert compiled.columns == ("v[0]", "v[1]")
    assert compiled.dense is not None
    assert compiled.dense.tolist() == [[1, 2], [0, 0], [3, 4]]
    again = compile_features(
        [[{"v": np.array([5.0, 6.0]), "u": np.array([1.0])}]], None, ("v[0]", "v[1]")
    )
    assert again.dense is not None
    assert again.dense.tolist() == [[5, 6]]
    rows = compile_features([np.array([[1.0, 2.0], [3.0, 4.0]])])
    assert rows.dense is not None
    assert rows.dense.tolist() == [[1, 2], [3, 4]]


def test_taken_tokens_keep_their_attributes() -> None:
    compiled = compile_features([[["a"], ["b", "c"], []], [{"d": 2.0}]])
    taken = compiled.taken(compiled.lengths.new_tensor([3, 1, 2, 0]))
    names = list(compiled.names)
    assert [names[i] for i in taken.attributes.tolist()] == ["d", "b", "c", "a"]
    assert taken.ends.tolist() == [1, 3, 3, 4]
    assert taken.values is not None
    assert taken.values.tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ([[["a"], {"b": None}]], "sequence 0, token 1.*'b' is a NoneType"),
        ([[], [{"b": float("nan")}]], "sequence 1, token 0.*nan"),
        ([[[1]]], "sequence 0.*1 is an int; names"),
        ([[{2: "x"}]], "sequence 0, token 0.*2 is an int"),
        ([["word"]], "sequence 0, token 0.*not a str"),
        (["word"], "sequence 0 is a str"),
        ([[None]], "sequence 0, token 0.*NoneType"),
        ([3], "sequence 0.*int"),
        ([[{"v": np.zeros((2, 2))}]], "shape"),
        ([[{"v": np.zeros(2)}, {"v": np.zeros(3)}]], "token 1.*3 columns, 2 before"),
        ([[{"v": np.array([np.inf])}]], "not finite"),
        ([[{"v": np.array([np.nan])}]], "not finite"),
        ([[{"v": np.array([-1e39])}]], "above 3.4e\\+38"),
        ([[{"b": 1e39}]], "'b' is 1e\\+39; .* at most 3.4e\\+38"),
        ([[{"b": -(10**400)}]], "'b' is -?inf"),
    ],
)
def test_mistakes_name_sequence_and_token(sequences: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        compile_features(sequences)


@pytest.mark.parametrize("sequence", [5, None, 2.5])
def test_a_sequence_that_is_none_is_named(sequence: Any) -> None:
    with pytest.raises(DataError, match="sequence 1"):
        compile_features([[["a"]], sequence])


def test_a_list_is_no_name() -> None:
    for closed in (False, True):
        names = Numbering(["a"], closed=closed)
        with pytest.raises(DataError, match="sequence 0"):
            compile_features([[["a", ["b"]]]], names)


def test_a_fault_in_what_yields_the_items_is_not_told_as_one_of_x() -> None:
    def items() -> Iterator[list[str]]:
        yield ["a"]
        len(5)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="len"):
        compile_features([items()])


def test_a_block_must_have_the_columns_of_training() -> None:
    with pytest.raises(DataError, match="in training it had 2"):
        compile_features([[{"v": np.zeros(3)}]], Numbering(), ("v[0]", "v[1]"))


def test_a_part_is_what_its_sequences_make_alone() -> None:
    items = [{"a": 0.5, "v": np.array([1.0, 2.0])}, {"b": "c"}, {"v": np.array([3.0, 4.0])}]
    sequences = [items[:1], [], items, items[1:], [items[0]] * 2]
    whole = compile_features(sequences)
    spans = [(0, 1), (1, 3), (3, 3), (3, 5)]
    parts = whole.split([end - first for first, end in spans])
    for (first, end), part in zip(spans, parts, strict=True):
        alone = compile_features(sequences[first:end], whole.names, whole.columns)
        assert part.lengths.tolist() == alone.lengths.tolist()
        assert part.ends.tolist() == alone.ends.tolist()
        assert part.attributes.tolist() == alone.attributes.tolist()
        assert part.dense is not None
        assert alone.dense is not None
        assert part.dense.tolist() == alone.dense.tolist()
        if alone.values is not None:
            assert part.values is not None
            assert part.values.tolist() == alone.values.tolist()


def test_work_of_a_split_grows_with_the_sequences() -> None:
    def work(sequences: int) -> int:
        whole = compile_features([[["a"], ["b"]]] * sequences)
        with CountedElements() as counted:
            assert len(list(whole.split([1] * sequences))) == sequences
        return counted.count

    assert work(600) < 2.2 * work(300)


def test_looking_up_adds_no_name_once_names_are_closed() -> None:
    names = Numbering(["a"], closed=True)
    assert [names["a"], names["never seen"], names["never seen"]] == [0, -1, -1]
    assert dict(names) == {"a": 0}


def test_tokens_with_the_same_names_are_read_together_as_one_by_one() -> None:
    generator = np.random.default_rng(0)

    def token(end: bool) -> dict[str, Any]:
        word = f"w{generator.integers(40)}"
        rest = {"upper": bool(generator.integers(2)), "share": float(generator.integers(3)) / 2}
        return {"word": word, **rest} if end else {"word": word, **rest, "next": word[::-1]}

    sequences = [[token(k == 5) for k in range(6)] for _ in range(100)]
    names = compile_features(sequences[:50]).names
    by_name = compile_features(sequences, pickle.loads(pickle.dumps(names)))
    one_by_one = compile_features(map(tuple, sequences), names)
    assert by_name.values is not None
    assert one_by_one.values is not None
    for part in ("lengths", "ends", "attributes", "values"):
        assert torch.equal(getattr(by_name, part), getattr(one_by_one, part)), part
    again = compile_features(sequences, names)
    assert torch.equal(again.attributes, by_name.attributes)
    sequences[70][3]["share"] = float("nan")
    with pytest.raises(DataError, match="sequence 70, token 3"):
        compile_features(sequences, names)
