"""Counts equal what a loop over the rows counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.errors import DataError
from mrflearn.features.observations import Samples, check_states, clique_counts


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 40))
def test_clique_counts_equal_a_loop(seed: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = (2, 3, 2)
    columns = [torch.randint(n, (rows,), generator=generator) for n in sizes]
    states = torch.stack(columns, dim=1)
    weights = torch.rand(rows, generator=generator, dtype=torch.float64)
    scopes = [torch.tensor([[0], [2]]), torch.tensor([[1, 0]]), torch.tensor([[2, 1, 0]])]
    shapes = [(2,), (3, 2), (2, 3, 2)]
    found = clique_counts(scopes, shapes, Samples(states, weights))
    for scope, shape, counts in zip(scopes, shapes, found.counts, strict=True):
        expected = torch.zeros(len(scope), *shape, dtype=torch.float64)
        for row, weight in zip(states, weights, strict=True):
            for f, variables in enumerate(scope):
                expected[(f, *row[variables])] += weight
        assert_close(counts, expected)
    assert_close(found.weights, weights.sum().reshape(1))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=30))
def test_distinct_rows_keep_their_counts(rows: list[tuple[int, int]]) -> None:
    samples = Samples.distinct(torch.tensor(rows))
    counted = {
        tuple(r.tolist()): float(w) for r, w in zip(samples.states, samples.weights, strict=True)
    }
    assert counted == {row: rows.count(row) for row in rows}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0, 5]], "row 0 .*, column 1: 5 is not a state"),
        ([[0, 0], [-1, 0]], "row 1 .*, column 0.*missing"),
        ([[0, -2]], "spins"),
        ([[0, 0, 0]], "transposed"),
    ],
)
def test_bad_states_are_named(rows: list[list[int]], says: str) -> None:
    with pytest.raises(DataError, match=says):
        check_states(torch.tensor(rows), torch.tensor([2, 3]))


def test_no_rows_and_missing_values() -> None:
    with pytest.raises(DataError, match="no samples"):
        check_states(torch.zeros(0, 2, dtype=torch.int64), torch.tensor([2, 2]))
    check_states(torch.tensor([[-1, 1]]), torch.tensor([2, 2]), missing_allowed=True)
