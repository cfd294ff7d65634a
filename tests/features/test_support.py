"""Which pairs get a weight: CRFsuite's rule, written down once more in plain loops."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.features.features import Numbering, compile_features
from mrflearn.features.labels import compile_labels
from mrflearn.features.merging import merged, positions
from mrflearn.features.support import Support, find_support
from support.tagged_items import attributes, random_data


def support_of(X: Any, y: Any, **options: Any) -> Support:
    features = compile_features(X)
    labels = compile_labels(y, features.lengths, Numbering())
    support, kept = find_support(features, labels, **options)
    assert list(kept.names) == list(support.attributes)
    return support


def named(support: Support) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    names, labels = list(support.attributes), list(support.labels)
    states = zip(support.attribute.tolist(), support.label.tolist(), strict=True)
    moves = zip(support.source.tolist(), support.target.tolist(), strict=True)
    return {(names[a], labels[s]) for a, s in states}, {(labels[a], labels[b]) for a, b in moves}


def expected(
    X: Any, y: Any, min_freq: float, all_states: bool, all_transitions: bool
) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    states: Counter[tuple[str, str]] = Counter()
    moves: Counter[tuple[str, str]] = Counter()
    for items, labels in zip(X, y, strict=True):
        for item, label in zip(items, labels, strict=True):
            for name, value in attributes(item):
                states[name, label] += value
        moves.update(itertools.pairwise(labels))
    known = {label for labels in y for label in labels}
    if all_states:
        for name, label in itertools.product({name for name, _ in states}, known):
            states[name, label] += 0
    if all_transitions:
        for pair in itertools.product(known, repeat=2):
            moves[pair] += 0
    kept = {pair for pair, total in states.items() if total >= min_freq}
    return kept, {pair for pair, total in moves.items() if total >= min_freq}


@given(st.integers(0, 1000), st.sampled_from([0, 0.5, 1, 2.3, 4]), st.booleans(), st.booleans())
def test_support_is_crfsuites(
    seed: int, min_freq: float, all_states: bool, all_transitions: bool
) -> None:
    X, y = random_data(seed)
    options = {"all_states": all_states, "all_transitions": all_transitions}
    found = named(support_of(X, y, min_freq=min_freq, **options))
    assert found == expected(X, y, min_freq, all_states, all_transitions)


def test_values_decide_as_in_crfsuite() -> None:
    X, y = [[{"a": -1.0, "b": 1.0}, {"a": 0.0}, {"c": 2.0}], [{"c": 0.5}]], [["x", "y", "x"], ["y"]]
    states, moves = named(support_of(X, y))
    assert states == {("a", "y"), ("b", "x"), ("c", "x"), ("c", "y")}  # python-crfsuite 0.9.12
    assert moves == {("x", "y"), ("y", "x")}
    everything, all_moves = named(support_of(X, y, all_states=True, all_transitions=True))
    assert everything == {("a", "y"), ("b", "x"), ("b", "y"), ("c", "x"), ("c", "y")}
    assert len(all_moves) == 4


def test_uncertain_labels_support_what_they_may_be() -> None:
    X = [[["a"], ["b"], ["c"], ["d"]]]
    states, moves = named(support_of(X, [["x", {"x", "y"}, None, "z"]]))
    assert states == {("a", "x"), ("b", "x"), ("b", "y"), ("d", "z")}
    assert {("x", "x"), ("x", "y")} <= moves
    assert ("z", "x") not in moves


def test_second_order_knows_the_triples_seen() -> None:
    X = [[["a"]] * 4]
    support = support_of(X, [["x", "y", "x", "x"]], order=2)
    assert support.triples is not None
    assert support.triples.tolist() == [[0, 1, 0], [1, 0, 0]]
    full = support_of(X, [["x", "y", "x", "x"]], order=2, all_transitions=True)
    assert full.triples is not None
    assert len(full.triples) == 8


@given(st.integers(0, 100), st.sampled_from([1, 2]))
def test_a_merged_support_has_the_pairs_of_both(seed: int, order: int) -> None:
    (X, y), (V, z) = random_data(seed, 4, 2), random_data(seed + 1, 4, 3)
    first, second = support_of(X, y, order=order), support_of(V, z, order=order)
    union = merged(first, second)
    for kind in (0, 1):
        assert named(union)[kind] == named(first)[kind] | named(second)[kind]
    assert list(union.labels)[: len(first.labels)] == list(first.labels)
    for part in (first, second):
        state, transition = positions(part, union)
        assert bool((state >= 0).all())
        assert bool((transition >= 0).all())
        assert len(torch.unique(transition)) == part.transitions


@pytest.mark.parametrize("order", [1, 2])
def test_positions_are_missing_where_a_pair_is(order: int) -> None:
    small = support_of([[["a"], ["b"]]], [["x", "y"]], order=order)
    other = support_of([[["b"], ["c"]]], [["x", "z"]], order=order)
    state, transition = positions(small, other)
    assert state.tolist() == [-1, -1]
    assert transition.tolist() == [-1]
