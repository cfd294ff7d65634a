from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.inference.decoding import best_list
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.junction_tree import JunctionTree
from support.fields import SHAPES, tiny_field

CONNECTED = sorted(set(SHAPES) - {"no factors"})


@given(st.sampled_from(CONNECTED), st.integers(0, 100), st.integers(1, 12))
def test_the_n_best_are_those_of_enumeration(name: str, seed: int, count: int) -> None:
    field = tiny_field(name, seed, forbidden=0.1)
    expected = [
        score
        for score in Enumeration().n_best(field, count)[1].squeeze(1).tolist()
        if score > -torch.inf
    ]
    found = best_list(field, count, JunctionTree())
    assert [score for _, score in found] == pytest.approx(expected)
    assert len({tuple(states.tolist()) for states, _ in found}) == len(found)
    for states, score in found:
        assert float(field.score(states)) == pytest.approx(score)


def test_masks_are_kept() -> None:
    field = tiny_field("chain", 3)
    allowed = field.graph.legal()
    allowed[1] = torch.tensor([False, True, False, False])
    found = best_list(field, 50, JunctionTree(), allowed)
    assert len(found) == 2 * 1 * 2 * 4
    assert all(int(states[1]) == 1 for states, _ in found)


def test_no_best_of_nothing() -> None:
    with pytest.raises(InferenceError, match="ask for 1 or more"):
        best_list(tiny_field("pair"), 0, JunctionTree())
