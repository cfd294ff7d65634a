"""Fields from noisy marginals alone: exact ones as before, contradictions weighed by variances."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn import MarkovField
from mrflearn.errors import GraphError, SettingsError
from mrflearn.inference import JunctionTree

RANDOM = np.random.default_rng(0)
ROWS = (RANDOM.random((400, 3)) < [0.3, 0.5, 0.6]).astype(int)
ROWS[:, 1] = np.where(RANDOM.random(400) < 0.6, ROWS[:, 0], ROWS[:, 1])


def counts() -> list[np.ndarray]:
    """Of a chain of three variables: single states, and pairs."""
    single = np.stack([np.bincount(ROWS[:, v], minlength=2) for v in range(3)]).astype(float)
    pairs = np.zeros((2, 2, 2))
    for edge in range(2):
        np.add.at(pairs[edge], (ROWS[:, edge], ROWS[:, edge + 1]), 1.0)
    return [single, pairs]


def shares(field: MarkovField) -> list[np.ndarray]:
    return [np.asarray(own) for own in JunctionTree()(field.potentials_).factors]


def test_without_noise_it_is_maximum_likelihood() -> None:
    plain = MarkovField("chain:3", estimator="ml").fit_counts(counts())
    exact = MarkovField("chain:3", estimator="ml").fit_counts(counts(), [1e-6, 1e-6])
    np.testing.assert_allclose(exact.couplings_, plain.couplings_, atol=1e-3)
    np.testing.assert_allclose(exact.fields_, plain.fields_, atol=1e-3)


def test_the_optimum_is_that_of_entropy_and_squares() -> None:
    """No other field nearby has more N H - sum (N mu - counts)^2 / (2 variance)."""
    seen = [own + RANDOM.normal(size=own.shape) * 5 for own in counts()]
    seen[0][0] += 400 - seen[0][0].sum()  # the number of rows is that of the first table
    noise = [np.full((3, 2), 25.0), np.full((2, 2, 2), 16.0)]
    field = MarkovField("chain:3", estimator="ml", tolerance=1e-10).fit_counts(seen, noise)

    def value(couplings: np.ndarray) -> float:
        states = np.indices((2, 2, 2)).reshape(3, -1).T
        features = np.concatenate([states, states[:, :2] * states[:, 1:]], axis=1)
        scores = features @ couplings
        chance = np.exp(scores - scores.max())
        chance /= chance.sum()
        entropy = -(chance * np.log(chance)).sum()
        single = np.stack([[chance[states[:, v] == s].sum() for s in (0, 1)] for v in range(3)])
        pairs = np.zeros((2, 2, 2))
        for edge in range(2):
            np.add.at(pairs[edge], (states[:, edge], states[:, edge + 1]), chance)
        missed = [400 * own - table for own, table in zip((single, pairs), seen, strict=True)]
        squares = (np.square(m) / (2 * v) for m, v in zip(missed, noise, strict=True))
        return float(400 * entropy - sum(own.sum() for own in squares))

    best = np.concatenate([own.numpy().ravel() for own in field.model_.values])
    top = value(best)
    for _ in range(50):
        assert value(best + 0.05 * RANDOM.normal(size=5)) < top


def test_contradictions_are_weighed_by_their_variances() -> None:
    single = np.array([[80.0, 20.0], [50.0, 50.0]])
    pairs = np.array([[[30.0, 30.0], [20.0, 20.0]]])  # 60 and 40 of the first
    near = [
        shares(MarkovField("chain:2", estimator="ml").fit_counts([single, pairs], noise))
        for noise in ([1e-3, 100.0], [100.0, 1e-3])
    ]
    assert near[0][0][0, 0] == pytest.approx(0.8, abs=0.01)
    assert near[1][0][0, 0] == pytest.approx(0.6, abs=0.01)


def test_wrong_input_is_told() -> None:
    field = MarkovField("chain:3", estimator="ml")
    with pytest.raises(GraphError, match="variances"):
        field.fit_counts(counts(), [1.0])
    with pytest.raises(SettingsError, match=">= 0"):
        field.fit_counts(counts(), [-1.0, 1.0])
    with pytest.raises(SettingsError, match="ml"):
        MarkovField("chain:3", estimator="pw").fit_counts(counts(), [1.0, 1.0])
