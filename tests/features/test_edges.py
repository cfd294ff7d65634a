"""Attributes of transitions: which triples get a weight, counted one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import BIAS, MARK, FactorTemplate, chain_templates, edge, merged
from support.tagged_items import attributes, random_data, with_edges

Index = tuple[tuple[FactorTemplate, ...], list[str]]


def indexed(X: list[Any], y: list[Any], known: Any = (), **options: Any) -> Index:
    """The templates of a chain, and its labels."""
    features = compile_features(X)
    labels = compile_labels(y, features.lengths, Numbering(known))
    return chain_templates(features, labels, **options)[0], list(labels.names)


def triples(index: Index) -> list[tuple[str, str, str]]:
    """(attribute, label before, label) of every weight of a marked attribute."""
    (_, template, *_), labels = index
    names, size = list(template.names), len(labels)
    return [
        (names[a], labels[c // size], labels[c % size])
        for a, c in zip(template.attribute.tolist(), template.cell.tolist(), strict=True)
        if names[a] != BIAS
    ]


def counted(X: list[Any], y: list[Any]) -> Counter[tuple[str, str, str]]:
    """The sum of values of every triple; sets count for each pair they may form, None for none."""
    total: Counter[tuple[str, str, str]] = Counter()
    for items, tags in zip(X, y, strict=True):
        choices = [[] if tag is None else sorted(tag) for tag in tags]
        for item, *pair in zip(items[1:], choices, choices[1:], strict=False):
            for name, value in attributes(item):
                if name.startswith(MARK):
                    total.update({(name, a, b): value for a, b in itertools.product(*pair)})
    return total


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.5]), st.booleans())
def test_seen_triples_get_weights(seed: int, min_freq: float, blur: bool) -> None:
    X, y = random_data(seed, 8, longest=6)
    X = with_edges(X)
    given: list[Any] = y
    if blur:
        kinds = {1: lambda _: None, 2: lambda tag: {tag, "A"}}
        given = [[kinds.get(j % 4, lambda t: t)(tag) for j, tag in enumerate(own)] for own in y]
    found = indexed(X, given, min_freq=min_freq)
    # All labels together are the same as none known.
    whole = set(found[1])
    plain = [
        [None if tag is None or (len(tag) > 1 and set(tag) == whole) else tag for tag in own]
        for own in given
    ]
    sums = counted(X, plain)
    assert set(triples(found)) == {names for names, total in sums.items() if total >= min_freq}
    assert len(triples(found)) == len(set(triples(found)))
    state = found[0][0]
    assert not any(list(state.names)[a].startswith(MARK) for a in state.attribute.tolist())


def test_all_transitions_are_all_pairs_of_every_attribute() -> None:
    X = [[{"w": "a"}, {edge("w"): "b"}], [{edge("w"): "c"}]]
    found = indexed(X, [["x", "y"], ["x"]], all_transitions=True)
    pairs = list(itertools.product("xy", repeat=2))
    assert triples(found) == [(edge(f"w:{w}"), *pair) for w in "bc" for pair in pairs]


def test_a_first_token_has_no_transition() -> None:
    assert not triples(indexed([[[edge("a")], ["b"]]], [["x", "y"]]))


def test_templates_are_merged_and_weights_found_again() -> None:
    first, labels = indexed([[["a"], [edge("u")]]], [["x", "y"]])
    second, labels = indexed([[["b"], [edge("u"), edge("v")]]], [["z", "x"]], labels)
    union = merged(first, second)
    found = {*triples((second, labels)), (edge("u"), "x", "y")}
    assert set(triples((union, labels))) == found
    both = union[1]
    for part in (first[1], second[1]):
        place = both.find(*part.recoded(both.names, both.shape))
        assert bool((place >= 0).all())
    missing = first[1].find(*second[1].recoded(first[1].names, first[1].shape))
    assert missing.tolist() == [-1, -1, -1]


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="outermost key"):
        indexed([[{"a": {edge("b"): 1}}]], [["x"]])
    with pytest.raises(DataError, match="need order=1"):
        indexed([[["a"], [edge("b")]]], [["x", "y"]], order=2)
    with pytest.raises(DataError, match="names of attributes are strings"):
        edge(3)  # type: ignore[arg-type]
