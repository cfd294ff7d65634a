"""Sequences laid out as factors: who is joined to whom, and which features each factor has."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import GraphError
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import BIAS
from mrflearn.models.field_batch import SequenceWiring, joined_rows, sequence_batch

X = [[["a"], ["b", "c"], ["c"]], [["a", "b"]]]
POS = [["D", "N", "N"], ["V"]]
NP = [["B", "I", None], ["O"]]


def compiled():
    features = compile_features(X)
    labels = [
        compile_labels(layer, features.lengths, Numbering(names, closed=True))
        for layer, names in ((POS, "DNV"), (NP, "BIO"))
    ]
    return features, labels


def factors(batch) -> dict[str, list[tuple[tuple[int, ...], set[str]]]]:
    """The scope and the names of the features of every factor, by group."""
    found = {}
    for group, features in zip(batch.graph.groups, batch.features, strict=True):
        names, ends = list(features.names), [0, *features.ends.tolist()]
        rows = [
            {names[a] for a in features.attributes[begin:end].tolist()}
            for begin, end in pairwise(ends)
        ]
        pairs = zip(group.scope.tolist(), group.table.tolist(), strict=True)
        found[group.name] = [(tuple(scope), rows[row]) for scope, row in pairs]
    return found


def test_features_on_edges_are_those_of_their_first_token():
    features, labels = compiled()
    wiring = SequenceWiring((3, 3), ((0, 1),))
    batch = sequence_batch(wiring, features, labels)
    tokens = [{"a", BIAS}, {"b", "c", BIAS}, {"c", BIAS}, {"a", "b", BIAS}]
    assert factors(batch) == {
        "end 0": [((4,), tokens[2]), ((6,), tokens[3])],
        "end 1": [((5,), tokens[2]), ((7,), tokens[3])],
        "pairwise 0": [((0, 2), tokens[0]), ((2, 4), tokens[1])],
        "pairwise 1": [((1, 3), tokens[0]), ((3, 5), tokens[1])],
        "cotemporal 0,1": [((2 * t, 2 * t + 1), tokens[t]) for t in range(4)],
    }
    assert batch.graph.component.tolist() == [0] * 6 + [1] * 2
    assert batch.states.tolist() == [0, 0, 1, 1, 1, -1, 2, 2]
    assert batch.uncertain.tolist() == [5]
    assert batch.allowed.tolist() == [[True] * 3]


@pytest.mark.parametrize("where", ["nodes", "both"])
def test_features_on_nodes_leave_edges_a_constant_unless_both_have_them(where):
    features, labels = compiled()
    wiring = SequenceWiring((3, 3), ((0, 1),), where)
    found = factors(sequence_batch(wiring, features, labels))
    assert [names for _, names in found["unary 0"]] == [
        {"a", BIAS},
        {"b", "c", BIAS},
        {"c", BIAS},
        {"a", "b", BIAS},
    ]
    edges = [names for name in ("pairwise 0", "cotemporal 0,1") for _, names in found[name]]
    assert all((names == {BIAS}) == (where == "nodes") for names in edges)


def test_skip_edges_have_the_features_of_both_ends():
    features, (labels, _) = compiled()
    skips = torch.tensor([[0, 2]])
    batch = sequence_batch(SequenceWiring((3,)), features, [labels], skips=skips)
    assert factors(batch)["skip 0"] == [((0, 2), {"a", "c", BIAS})]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0.5, 4), min_size=1), min_size=2))
def test_joined_rows_keep_the_larger_value(items):
    features = compile_features([items])
    joined = joined_rows(features, torch.tensor([[0, len(items) - 1]]))
    names = list(joined.names)
    values = [1.0] * len(joined.attributes) if joined.values is None else joined.values.tolist()
    found = dict(zip((names[a] for a in joined.attributes.tolist()), values, strict=True))
    expected = {
        name: max(item.get(name, 0) for item in (items[0], items[-1]))
        for name in items[0] | items[-1]
    }
    assert found == pytest.approx(expected)


def test_without_labels_every_state_is_open_and_groups_are_chosen_by_name():
    features, _ = compiled()
    batch = sequence_batch(SequenceWiring((3, 2), ((0, 1),)), features, only=["cotemporal 0,1"])
    assert [group.name for group in batch.graph.groups] == ["cotemporal 0,1"]
    assert batch.allowed_states().sum(dim=1).tolist() == [3, 2] * 4


def test_groups_without_factors_are_left_out():
    features = compile_features([[["a"]], [["b"]]])
    batch = sequence_batch(SequenceWiring((2,)), features, skips=torch.zeros(0, 2).long())
    assert [group.name for group in batch.graph.groups] == ["end 0"]


@pytest.mark.parametrize("pair", [(0, 0), (0, 2), (-1, 0)])
def test_layers_that_are_not_there_cannot_be_coupled(pair):
    with pytest.raises(GraphError, match="cannot be coupled"):
        SequenceWiring((2, 2), (pair,))


def test_features_stand_on_edges_nodes_or_both():
    with pytest.raises(GraphError, match="not one of edges, nodes, both"):
        SequenceWiring((2,), (), "tokens")
