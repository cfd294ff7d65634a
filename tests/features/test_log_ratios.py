"""Log-ratios of pairs: what they are, and that they are the best tied scores of the chain bound."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.features.log_ratios import (
    harmonic_weights,
    mixed_frequencies,
    positive_log_ratios,
)
from mrflearn.io.corpus import Vocabulary
from support.moments import count_sentences

WORDS = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
TEXTS = st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=7), min_size=1, max_size=6)


def by_hand(text: list[list[str]], weights: tuple[float, ...]) -> Counter[tuple[int, int]]:
    """Weighted counts of pairs, each in both orders."""
    found: Counter[tuple[int, int]] = Counter()
    for sentence in text:
        ids = [WORDS.words.index(word) for word in sentence]
        for i, left in enumerate(ids):
            for weight, right in zip(weights, ids[i + 1 :], strict=False):
                found[left, right] += weight
                found[right, left] += weight
    return found


@given(TEXTS, st.integers(1, 4))
def test_frequencies_are_those_of_pairs_within_sentences(text, context):
    weights = harmonic_weights(context)
    moments = count_sentences(text, WORDS, context)
    found = mixed_frequencies(moments, weights).toarray()
    counts = by_hand(text, weights)
    total = sum(counts.values())
    expected = np.zeros((5, 5))
    for (left, right), count in counts.items():
        expected[left, right] = count / total
    np.testing.assert_allclose(found, expected, atol=1e-12)
    ratios = positive_log_ratios(mixed_frequencies(moments, weights)).toarray()
    marginal = expected.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        every = np.log(expected / np.outer(marginal, marginal))
    np.testing.assert_allclose(ratios, np.where(expected > 0, np.maximum(every, 0), 0), atol=1e-9)


def test_weights_fall_as_one_over_the_distance():
    assert harmonic_weights(1) == (1.0,)
    np.testing.assert_allclose(harmonic_weights(3), np.array([6, 3, 2]) / 11)


def test_a_text_without_pairs_is_refused():
    with pytest.raises(DataError, match="one word a line"):
        mixed_frequencies(count_sentences([["a"], ["b"]], WORDS, 2), (0.5, 0.5))


def chain_objective(table: torch.Tensor, unary: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """The chains' bound with pair scores rho_l theta, whose weights cancel in every chain."""
    matrix = torch.exp(table + unary)  # exp( pair_l / rho_l + unary ), the same for every l
    largest = torch.linalg.eigvals(matrix).real.max()
    return (p * table).sum() + (p.sum(0) * unary).sum() - largest.log()


def test_log_ratios_are_the_best_scores_that_are_alike_at_all_offsets():
    draw = torch.Generator().manual_seed(0)
    counts = torch.rand(4, 4, generator=draw, dtype=torch.float64) + 0.1
    p = (counts + counts.T) / (2 * counts.sum())
    marginal = p.sum(0)
    table, unary = torch.log(p / torch.outer(marginal, marginal)), marginal.log()
    best = chain_objective(table, unary, p)
    entropy = -(marginal * unary).sum()
    torch.testing.assert_close(best, (p * table).sum() - entropy)  # minus H plus I
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            way = torch.randn(4, 4, generator=draw, dtype=torch.float64) * size
            other = torch.randn(4, generator=draw, dtype=torch.float64) * size
            moved = chain_objective(table + (way + way.T) / 2, unary + other, p)
            assert moved <= best + 1e-12
