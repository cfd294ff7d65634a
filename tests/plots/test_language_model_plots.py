"""Pictures of language models show what they are given."""

from __future__ import annotations

import numpy as np

from mrflearn.plots import bound_curve, vector_map
from mrflearn.training.outcome import Row


def test_curves_of_training_and_validation():
    rows = [Row(0, 5.0, 1.0, 1.0, 1, 0.1), Row(1, 4.0, 1.0, 1.0, 3, 0.2, -4.5)]
    (axes,) = bound_curve(rows).axes
    training, validation = axes.get_lines()
    assert training.get_xdata().tolist() == [1, 3]
    assert training.get_ydata().tolist() == [-5.0, -4.0]
    assert validation.get_ydata().tolist() == [-4.5]
    assert len(bound_curve(rows[:1]).axes[0].get_lines()) == 1


def test_map_places_every_word():
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    (axes,) = vector_map(list("abcde"), vectors).axes
    assert [text.get_text() for text in axes.texts] == list("abcde")
    assert axes.collections[0].get_offsets().shape == (5, 2)


def test_labels_of_words_in_one_place_stand_apart():
    vectors = np.repeat(np.eye(3, dtype=np.float32), [3, 1, 1], axis=0)
    (axes,) = vector_map(["one", "two", "three", "far", "away"], vectors).axes
    heights = [text.get_position()[1] for text in axes.texts]
    assert len(set(heights[:3])) == 3
    assert heights[3] == heights[4] == heights[0]
