"""PLSA: one step against listing all topics; EM that never falls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.models.topics import PLSA, document_counts

COUNTS = document_counts([np.array([0, 1, 1, 3]), np.array([], int), np.array([2, 2, 0])], 4)


def by_listing(model: PLSA) -> tuple[float, PLSA]:
    """One EM step with a posterior for every document, word and topic."""
    dense = COUNTS.toarray()
    joint = model.documents[:, None, :] * model.words[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(dense > 0, dense * np.log(joint.sum(axis=2)), 0).sum()
        posterior = joint / joint.sum(axis=2, keepdims=True)
        used = dense[:, :, None] * posterior
        words = used.sum(axis=0)
        documents = used.sum(axis=1)
        shares = documents / documents.sum(axis=1, keepdims=True)
    shares[1] = model.documents[1]  # nothing was seen
    return float(value), PLSA(words / words.sum(axis=0), shares)


def test_a_step_equals_listing_all_topics() -> None:
    model = PLSA.random(3, 4, 3, seed=5)
    value, new = model.step(COUNTS)
    expected, listed = by_listing(model)
    assert value == pytest.approx(expected, abs=1e-12)
    assert new.words == pytest.approx(listed.words, abs=1e-12)
    assert new.documents == pytest.approx(listed.documents, abs=1e-12)


@given(
    seed=st.integers(0, 1000),
    documents=st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=5),
)
def test_the_likelihood_never_falls(seed: int, documents: list[list[int]]) -> None:
    counts = document_counts([np.array(ids, np.int64) for ids in documents], 5)
    model = PLSA.random(len(documents), 5, 3, seed)
    before = -np.inf
    for _ in range(6):
        value, model = model.step(counts)
        assert value >= before - 1e-9
        assert model.words.sum(axis=0) == pytest.approx(np.ones(3))
        assert model.documents.sum(axis=1) == pytest.approx(np.ones(len(documents)))
        before = value
