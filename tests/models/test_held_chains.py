"""The index of sequences in blocks is that of all sequences, and so is the CRF."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from mrflearn import CRF, edge
from mrflearn.errors import DataError
from mrflearn.execution.executor import Processes, Serial
from mrflearn.models.held_chains import Seen

Example = tuple[list[dict[str, Any]], list[Any]]
FEW = {"dtype": "float64", "max_iterations": 8}


def examples(*, edges: bool = False, blur: bool = False, dense: bool = False) -> list[Example]:
    draw = np.random.default_rng(3)
    found: list[Example] = []
    for number in range(30):
        items, labels = list[dict[str, Any]](), list[Any]()
        for _ in range(int(draw.integers(0, 6))):
            label = int(draw.integers(3))
            item: dict[str, Any] = {"w": f"{label}{draw.integers(3)}", "x": draw.normal()}
            if edges and draw.random() < 0.6:
                item[edge("w")] = str(draw.integers(2))
            if dense and number > 10:
                item["d"] = draw.normal(size=2)
            items.append(item)
            unsure = blur and draw.random() < 0.3
            labels.append([None, {"a", "b"}][int(draw.integers(2))] if unsure else "abc"[label])
        found.append((items, labels))
    return found


def blocks_of(given: list[Any], count: int = 4) -> list[list[Any]]:
    cuts = [len(given) * k // count for k in range(count + 1)]
    return [*(given[a:b] for a, b in pairwise(cuts)), []]


def assert_same(found: CRF, wanted: CRF) -> None:
    assert found.classes_ == wanted.classes_
    for mine, other in zip(found.model_.templates, wanted.model_.templates, strict=True):
        assert list(mine.names) == list(other.names)
        assert mine.shape == other.shape
        assert mine.columns == other.columns
        assert torch.equal(mine.attribute, other.attribute)
        assert torch.equal(mine.cell, other.cell)
    for mine, other in zip(
        found.model_.parameters().values(), wanted.model_.parameters().values(), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({}, {}),
        ({}, {"min_freq": 2.0}),
        ({}, {"all_possible_states": True, "all_possible_transitions": True}),
        ({"edges": True}, {}),
        ({"edges": True}, {"min_freq": 1.0, "all_possible_transitions": True}),
        ({"blur": True}, {}),
        ({"dense": True}, {"c1": 0.1}),
        ({}, {"order": 2}),
        ({}, {"order": 2, "all_possible_transitions": True}),
        ({}, {"class_weight": "balanced"}),
        ({}, {"class_weight": {"a": 2.0}, "estimator": "pwpl"}),
        ({}, {"estimator": "bp"}),
    ],
)
def test_a_crf_of_blocks_is_the_crf_of_all_sequences(
    given: dict[str, Any], settings: dict[str, Any]
) -> None:
    data = examples(**given)
    # A label of a set may stand for any order: the first sequences name all labels.
    data = [([{"w": name} for name in "abc"], list("abc")), *data]
    wanted = CRF(**FEW, **settings).fit([x for x, _ in data], [y for _, y in data])
    with Serial().hold(blocks_of(data)) as held:
        assert_same(CRF(**FEW, **settings).fit(held), wanted)


def test_weights_and_features_travel_with_the_examples() -> None:
    draw = np.random.default_rng(0)
    words = [[f"w{k}" for k in draw.integers(5, size=4)] for _ in range(20)]
    tags = [["x" if w < "w2" else "y" for w in own] for own in words]
    weight = draw.integers(0, 3, 20).astype(float)
    wanted = CRF(features="words", **FEW).fit(words, tags, sample_weight=weight)
    with Serial().hold(blocks_of(list(zip(words, tags, weight, strict=True)))) as held:
        found = CRF(features="words", **FEW).fit(held)
    assert_same(found, wanted)
    assert list(map(list, found.predict(words))) == list(map(list, wanted.predict(words)))


def test_a_crf_of_an_executor_is_the_crf_here(processes: Processes) -> None:
    X, y = zip(*examples(edges=True), strict=True)
    wanted = CRF(**FEW).fit(X, y)
    assert_same(CRF(**FEW).fit(X, y, executor=processes), wanted)
    assert_same(
        CRF(**FEW, estimator="pl").fit(X, y, executor=Serial()),
        CRF(**FEW, estimator="pl").fit(X, y),
    )


def test_what_was_seen_adds_up_in_any_grouping() -> None:
    from mrflearn.models.held_chains import Read

    read = Read(("a", "b", "c"), None)
    parts = [Seen.of(1, read(own)) for own in blocks_of(examples(edges=True), 3)]
    left = (parts[0] + parts[1]) + (parts[2] + parts[3])
    right = parts[0] + (parts[1] + (parts[2] + parts[3]))
    assert left.names == right.names
    for mine, other in zip(left.state, right.state, strict=True):
        np.testing.assert_allclose(mine, other)


def test_held_sequences_without_labels_or_with_wrong_lengths_are_refused() -> None:
    with Serial().hold([[], []]) as held, pytest.raises(DataError, match="no sequence has a label"):
        CRF().fit(held)
    with Serial().hold([[([{"w": "a"}], ["x", "y"])]]) as held, pytest.raises(DataError):
        CRF().fit(held)
