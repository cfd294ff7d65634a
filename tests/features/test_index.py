"""Which pairs get a weight: CRFsuite's rule, written down once more in plain loops."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import BIAS, FactorTemplate, chain_templates, merged
from support.tagged_items import attributes, random_data

Index = tuple[tuple[FactorTemplate, ...], list[str]]


def index_of(X: Any, y: Any, labels: Numbering | None = None, **options: Any) -> Index:
    """The templates of a chain, and its labels."""
    features = compile_features(X)
    compiled = compile_labels(y, features.lengths, Numbering() if labels is None else labels)
    templates, kept = chain_templates(features, compiled, **options)
    assert list(kept.names) == list(templates[0].names)
    return templates, list(compiled.names)


def pairs_of(template: FactorTemplate, labels: list[str]) -> list[tuple[str, ...]]:
    """(attribute, label, ...) of every weight."""
    names, places = list(template.names), torch.unravel_index(template.cell, template.shape)
    return [
        (names[a], *(labels[s] for s in states))
        for a, *states in zip(
            template.attribute.tolist(), *(p.tolist() for p in places), strict=True
        )
    ]


def named(index: Index) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    templates, labels = index
    states, moves = (set(pairs_of(own, labels)) for own in templates[:2])
    assert {name for name, *_ in moves} <= {BIAS}
    return states, {pair[1:] for pair in moves}


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
    found = named(index_of(X, y, min_freq=min_freq, **options))
    assert found == expected(X, y, min_freq, all_states, all_transitions)


def test_values_decide_as_in_crfsuite() -> None:
    X, y = [[{"a": -1.0, "b": 1.0}, {"a": 0.0}, {"c": 2.0}], [{"c": 0.5}]], [["x", "y", "x"], ["y"]]
    states, moves = named(index_of(X, y))
    assert states == {("a", "y"), ("b", "x"), ("c", "x"), ("c", "y")}  # python-crfsuite 0.9.12
    assert moves == {("x", "y"), ("y", "x")}
    everything, all_moves = named(index_of(X, y, all_states=True, all_transitions=True))
    assert everything == {("a", "y"), ("b", "x"), ("b", "y"), ("c", "x"), ("c", "y")}
    assert len(all_moves) == 4


def test_uncertain_labels_support_what_they_may_be() -> None:
    X = [[["a"], ["b"], ["c"], ["d"]]]
    states, moves = named(index_of(X, [["x", {"x", "y"}, None, "z"]]))
    assert states == {("a", "x"), ("b", "x"), ("b", "y"), ("d", "z")}
    assert {("x", "x"), ("x", "y")} <= moves
    assert ("z", "x") not in moves


def test_second_order_knows_the_triples_seen() -> None:
    X = [[["a"]] * 4]
    templates, labels = index_of(X, [["x", "y", "x", "x"]], order=2)
    assert pairs_of(templates[2], labels) == [(BIAS, "x", "y", "x"), (BIAS, "y", "x", "x")]
    full, _ = index_of(X, [["x", "y", "x", "x"]], order=2, all_transitions=True)
    assert len(full[2]) == 8


@given(st.integers(0, 100), st.sampled_from([1, 2]))
def test_merged_templates_have_the_pairs_of_both(seed: int, order: int) -> None:
    (X, y), (V, z) = random_data(seed, 4, 2), random_data(seed + 1, 4, 3)
    first, labels = index_of(X, y, order=order)
    second, labels = index_of(V, z, Numbering(labels), order=order)
    union = merged(first, second)
    for one, other, both in zip(first, second, union, strict=True):
        pairs = [set(pairs_of(own, labels)) for own in (one, other, both)]
        assert pairs[2] == pairs[0] | pairs[1]
        assert list(both.names)[: len(one.names)] == list(one.names)
        for part in (one, other):
            place = both.find(*part.recoded(both.names, both.shape))
            assert [pairs_of(both, labels)[k] for k in place] == pairs_of(part, labels)


@pytest.mark.parametrize("order", [1, 2])
def test_nothing_is_found_where_a_pair_is_missing(order: int) -> None:
    small, labels = index_of([[["a"], ["b"]]], [["x", "y"]], order=order)
    other, others = index_of([[["b"], ["c"]]], [["x", "z"]], order=order)
    number = torch.tensor([Numbering(others, closed=True)[name] for name in labels])
    for one, two in zip(small, other, strict=True):
        place = two.find(*one.recoded(two.names, two.shape, number))
        assert place.tolist() == [-1] * len(one)


def test_templates_travel_in_few_bytes_and_arrive_as_they_were() -> None:
    attribute = torch.arange(30_000).repeat_interleave(2)
    cell = torch.tensor([1, 200]).repeat(30_000)
    sent = FactorTemplate("state", (300,), Numbering(), (), attribute, cell)
    assert len(sent.codes) == len(sent)  # what was made of them stays here
    content = pickle.dumps(sent)
    assert len(content) < 4 * len(sent)
    found = pickle.loads(content)
    for name in ("attribute", "cell", "codes"):
        assert torch.equal(getattr(found, name), getattr(sent, name))
        assert getattr(found, name).dtype == torch.int64
