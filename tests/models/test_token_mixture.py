"""Caches are relative frequencies of what stands before; mixtures lean on the sources that help."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.features.document_stream import DocumentStream
from mrflearn.models.token_mixture import (
    CACHES,
    WINDOW,
    TokenMixture,
    cache_names,
    cache_scores,
    next_in_caches,
)

WORDS, EDGE = 6, 5  # states, and the one that separates sentences


def documents(seed: int) -> list[list[np.ndarray]]:
    """Three documents, the second longer than the window of recent words."""
    draws = np.random.default_rng(seed)
    sizes = ([4, 1, 3], [9] * 20, [2])
    return [[draws.integers(0, EDGE, n).astype(np.int32) for n in own] for own in sizes]


def slow(before: list[int], word: int, order: int, otherwise: float) -> list[float]:
    """What each cache says of a word after the tokens of its document so far, by counting."""

    def share(followers: list[int], below: float) -> float:
        return followers.count(word) / len(followers) if followers else below

    below = share(before, otherwise)
    values = [below, share(before[-WINDOW:], otherwise)]
    stream = [EDGE, *before]
    for n in range(2, min(order, 3) + 1):
        last = stream[len(stream) - n + 1 :]
        starts = range(len(stream) - n + 1) if len(before) >= n - 2 else ()
        below = share([stream[k + n - 1] for k in starts if stream[k : k + n - 1] == last], below)
        values.append(below)
    return values


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_caches_are_relative_frequencies_of_the_document_so_far(order: int) -> None:
    found = documents(order)
    text = DocumentStream.of(found, EDGE)
    otherwise = np.random.default_rng(1).random(len(text.stream) - 1)
    scores = cache_scores(text, order, otherwise)
    assert scores.values.shape[1] == len(cache_names(order)) <= len(CACHES)
    place = 0
    for own in found:
        tokens = [t for words in own for t in (*words.tolist(), EDGE)]
        for k, word in enumerate(tokens):
            expected = slow(tokens[:k], word, order, float(otherwise[place]))
            assert scores.values[place] == pytest.approx(expected, abs=1e-12)
            if k % 7 == 0:  # the same for every word there is
                history = np.array([EDGE, *tokens[:k]])
                every = next_in_caches(history, order, np.full(WORDS, otherwise[place]))
                assert every.values[word] == pytest.approx(expected, abs=1e-12)
                assert set(every.classes.tolist()) == {int(scores.classes[place])}
            place += 1


def test_weights_are_those_of_the_source_that_is_right() -> None:
    draws = np.random.default_rng(2)
    kinds = draws.integers(0, 2, 4000)
    known = draws.random(4000) < 0.8  # in class 0 the first source is right, in class 1 the second
    right, wrong = np.where(known, 0.9, 0.1), np.full(4000, 0.02)
    values = np.stack([np.where(kinds == k, right, wrong) for k in (0, 1)], axis=1)
    mixture = TokenMixture.fit(("one", "two"), values, kinds, (2,))
    assert mixture.weights.sum(axis=1) == pytest.approx(np.ones(2))
    assert mixture.weights[[0, 1], [0, 1]] == pytest.approx(np.ones(2), abs=0.05)
    assert np.log(mixture.of(values, kinds)).mean() > np.log(values.mean(axis=1)).mean()
    # A class of longer histories than were seen has the weights of the longest that were.
    longer = TokenMixture.fit(("one", "two"), values, kinds, (4,))
    assert longer.weights[3] == pytest.approx(longer.weights[1])
