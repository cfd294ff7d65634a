"""Levels by name, and weights and tables that stay distributions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.errors import MrflearnError
from mrflearn.models.composite_lm import Level, common_weights, normalised_weights, shares_by_group


@given(st.integers(0, 6), st.booleans(), st.booleans())
def test_names_say_what_a_level_sees(words: int, tag: bool, topic: bool) -> None:
    level = Level(words, tag, topic)
    assert Level.read(str(level)) == level


@pytest.mark.parametrize("name", ["u", "vu", "hA", "Ahx", "uvw"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(MrflearnError, match="no level is called"):
        Level.read(name)


def test_the_example_of_the_paper() -> None:
    assert Level.read("uvAh") == Level(2, True, True)
    assert Level.read("") == Level(0, False, False)


def test_unused_contexts_keep_their_probabilities() -> None:
    counts = torch.tensor([2.0, 6, 0, 0]).reshape(4, 1, 1)
    before = torch.tensor([0.1, 0.9, 0.3, 0.7]).reshape(4, 1, 1)
    new = shares_by_group(counts, torch.tensor([0, 0, 1, 1]), 2, before)
    assert_close(new.flatten(), torch.tensor([0.25, 0.75, 0.3, 0.7]))


def test_common_weights_are_the_same_for_all_preterminals() -> None:
    counts = torch.tensor([[[3.0, 1.0, 0.0], [0.0, 4.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    found = common_weights(counts, prior=8.0)
    assert_close(found[0], torch.tensor([[6 / 16, 10 / 16, 0.0]] * 2))
    assert_close(found[1], torch.tensor([[3 / 8, 5 / 8, 0.0]] * 2))  # as over all buckets


def test_weights_lean_on_their_prior_and_keep_their_zeros() -> None:
    centre = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]])
    counts = torch.tensor([[[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    free = normalised_weights(counts, centre, prior=2.0, tied=False)
    assert_close(free, torch.tensor([[[4 / 6, 2 / 6, 0.0], [0.5, 0.5, 0.0]]]))
    tied = normalised_weights(counts, centre, prior=2.0, tied=True)
    assert_close(tied, torch.tensor([[[5 / 8, 3 / 8, 0.0], [5 / 8, 3 / 8, 0.0]]]))
