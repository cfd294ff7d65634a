"""The quick transforms equal their definitions, written out state by state."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from mrflearn.objectives.local_auxiliary import (
    moments,
    scores_of_terms,
    with_missing,
    without_missing,
)

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def counting(sizes: list[int]) -> Tensor:
    """One row a joint state, one column a term: whether the term counts there."""
    states = list(itertools.product(*(range(size) for size in sizes)))
    return torch.tensor(
        [
            [all(a in (0, x) for a, x in zip(term, state, strict=True)) for term in states]
            for state in states
        ],
        dtype=torch.float64,
    )


def seen_as(sizes: list[int]) -> Tensor:
    """One row a state with missing values, one column a joint state: whether they agree."""
    partial = list(itertools.product(*(range(size + 1) for size in sizes)))
    whole = list(itertools.product(*(range(size) for size in sizes)))
    return torch.tensor(
        [
            [all(a in (x, n) for a, x, n in zip(p, w, sizes, strict=True)) for w in whole]
            for p in partial
        ],
        dtype=torch.float64,
    )


@given(sizes=SIZES, problems=st.integers(1, 3), seed=st.integers(0, 999))
def test_scores_and_moments_equal_their_definition(
    sizes: list[int], problems: int, seed: int
) -> None:
    matrix = counting(sizes)
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(len(matrix), problems, generator=generator, dtype=torch.float64)
    kept = table.clone()
    assert_close(scores_of_terms(table, sizes), matrix @ table)
    assert_close(moments(table, sizes), matrix.T @ table)
    assert_close(table, kept, rtol=0, atol=0)


@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3), seed=st.integers(0, 999))
def test_missing_values_are_sums(sizes: list[int], seed: int) -> None:
    matrix = seen_as(sizes)
    generator = torch.Generator().manual_seed(seed)
    masses = torch.rand(matrix.shape[1], 2, generator=generator, dtype=torch.float64)
    partial = torch.rand(matrix.shape[0], 2, generator=generator, dtype=torch.float64)
    assert_close(with_missing(masses, sizes), matrix @ masses)
    assert_close(without_missing(partial, sizes), matrix.T @ partial)
