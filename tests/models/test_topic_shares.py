"""Topic shares of a document, sentence by sentence."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.models import topics
from mrflearn.models.topics import expected_draws, shares_before_each

PRIOR = np.array([0.5, 0.3, 0.2])


def document(sentences: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What topics and others give tokens, and where sentences end; topic 1 gives most."""
    generator = np.random.default_rng(seed)
    ends = np.cumsum(generator.integers(3, 9, sentences))
    by_topic = generator.uniform(0, 0.1, (int(ends[-1]), 3)) * [1.0, 3.0, 0.5]
    return by_topic, generator.uniform(0, 0.05, len(by_topic)), ends


def over_all(by_topic: np.ndarray, otherwise: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """The same by steps over all that was read, again and again."""
    shares, found = PRIOR, [PRIOR]
    for end in ends.tolist():
        for _ in range(5):
            raised = expected_draws(by_topic[:end], otherwise[:end], shares) + 10 * PRIOR
            shares = raised / raised.sum()
        found.append(shares)
    return found


def test_short_documents_are_read_again_and_again() -> None:
    text = document(12)
    found = list(shares_before_each(*text, PRIOR, 10.0))
    assert np.array(found) == pytest.approx(np.array(over_all(*text)), abs=1e-12)


def test_long_documents_come_to_nearly_the_same() -> None:
    text = document(300)
    found = np.array(list(shares_before_each(*text, PRIOR, 10.0)))
    assert found.sum(axis=1) == pytest.approx(np.ones(301))
    assert np.abs(found - np.array(over_all(*text))).max() < 0.02


def test_the_work_grows_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    visited = 0

    def counted(by_topic: np.ndarray, *others: np.ndarray) -> np.ndarray:
        nonlocal visited
        visited += len(by_topic)
        return expected_draws(by_topic, *others)

    monkeypatch.setattr(topics, "expected_draws", counted)
    by_topic, otherwise, ends = document(2000)
    list(shares_before_each(by_topic, otherwise, ends, PRIOR, 10.0))
    assert visited < 200 * len(by_topic)


def test_tokens_that_no_topic_gives_draw_none() -> None:
    prior = np.array([0.0, 0.6, 0.4])
    by_topic = np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [1000, 20], axis=0)
    *_, last = shares_before_each(by_topic, np.zeros(1020), np.array([1020]), prior, 10.0)
    assert last == pytest.approx([0.0, 26 / 30, 4 / 30])
