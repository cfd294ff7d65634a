"""Histograms of neighbourhoods equal counting one sample at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.features import observations as room
from mrflearn.features.observations import Samples


def one_by_one(
    scope: np.ndarray, sizes: list[int], rows: np.ndarray, weights: np.ndarray, missing: bool
) -> np.ndarray:
    shape = [size + missing for size in sizes]
    counts = np.zeros((len(scope), *shape))
    for q, variables in enumerate(scope):
        for row, weight in zip(rows, weights, strict=True):
            states = [s if s >= 0 else n for s, n in zip(row[variables], sizes, strict=True)]
            counts[(q, *states)] += weight
    return counts.reshape(len(scope), -1).T


@given(
    seed=st.integers(0, 9999),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    missing=st.booleans(),
    weighted=st.booleans(),
    samples=st.integers(1, 30),
)
def test_counts_equal_counting_one_by_one(
    seed: int, sizes: list[int], missing: bool, weighted: bool, samples: int
) -> None:
    generator = np.random.default_rng(seed)
    pool = 3 * len(sizes)  # variables k, k + n, k + 2n have the same states
    rows = np.stack(
        [generator.integers(0, sizes[v % len(sizes)], samples) for v in range(pool)], axis=1
    )
    if missing:
        rows[generator.random(rows.shape) < 0.3] = -1
        rows[0, 0] = -1
    scope = np.arange(len(sizes)) + len(sizes) * generator.integers(0, 3, (4, len(sizes)))
    weights = generator.random(samples) if weighted else np.ones(samples)
    data = Samples.of(rows, torch.from_numpy(weights) if weighted else None)
    assert data.missing == missing
    assert data.total == pytest.approx(weights.sum())
    counts = data.count(torch.from_numpy(scope), sizes)
    assert_close(counts, torch.from_numpy(one_by_one(scope, sizes, rows, weights, missing)))


@pytest.mark.parametrize("largest", [200, 254, 300])
def test_many_states_need_wider_columns(largest: int) -> None:
    rows = np.array([[0, largest], [1, 7], [-1, largest], [1, -1]])
    sizes = [2, largest + 1]
    counts = Samples.of(rows).count(torch.tensor([[0, 1]]), sizes)
    expected = one_by_one(np.array([[0, 1]]), sizes, rows, np.ones(4), True)
    assert_close(counts, torch.from_numpy(expected))


def test_blocks_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (50, 6))
    scope = torch.tensor([[0, 1, 2], [3, 4, 5], [5, 0, 3]])
    whole = Samples.of(rows).count(scope, [3, 3, 3])
    monkeypatch.setattr(room, "BLOCK", 7)
    assert_close(Samples.of(rows).count(scope, [3, 3, 3]), whole)
    parts = [Samples.of(part) for part in np.array_split(rows, 4)]
    found = [part.count(scope, [3, 3, 3]) for part in parts]
    assert_close(torch.stack(found).sum(dim=0), whole)
