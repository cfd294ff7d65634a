"""Left corners against the series that they sum."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.inference.charts import left_corners, termination_probability
from mrflearn.kernels.rules import RuleShape

PHRASES, TERMS = 4, 400


def _sparse_rules(seed: int) -> tuple[torch.Tensor, RuleShape]:
    """A few rules A -> B T for each phrase; one time in ten a phrase becomes two preterminals."""
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(PHRASES, PHRASES, generator=generator) < 0.3
    parent, left = torch.nonzero(kept).unbind(dim=1)
    drawn = torch.rand(len(parent), dtype=torch.float64, generator=generator)
    total = torch.zeros(PHRASES, dtype=torch.float64).index_add(0, parent, drawn)
    every = torch.arange(PHRASES)
    last = torch.full((PHRASES,), PHRASES)
    ends = torch.where(total > 0, 0.1, 1.0).double()
    rules = torch.cat([0.9 * drawn / total[parent], ends])
    parent, left = torch.cat([parent, every]), torch.cat([left, last])
    return rules, RuleShape(PHRASES, 1, parent, left, torch.full_like(left, PHRASES))


def test_sums_the_series_and_nothing_is_below_zero() -> None:
    for seed in range(100):
        rules, shape = _sparse_rules(seed)
        found = left_corners(rules, shape, rules.new_ones(shape.symbols))
        step = rules.new_zeros(shape.symbols, shape.symbols)
        step.index_put_((shape.parent, shape.left), rules, accumulate=True)
        term = series = torch.eye(shape.symbols, dtype=torch.float64)
        for _ in range(TERMS):
            term = term @ step
            series = series + term
        torch.testing.assert_close(found, series)
        assert (found >= 0).all()


def test_rules_whose_left_recursion_diverges_are_told() -> None:
    shape = RuleShape(1, 1, *(torch.tensor([symbol]) for symbol in (0, 0, 1)))  # S -> S T
    with pytest.raises(InferenceError, match="left corners"):
        left_corners(torch.tensor([1.5]).double(), shape, torch.ones(2).double())


def test_rules_of_more_than_one_are_told() -> None:
    shape = RuleShape(1, 1, torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(InferenceError, match="derivation ends"):
        termination_probability(torch.tensor([0.6, 0.7]).double(), shape)
