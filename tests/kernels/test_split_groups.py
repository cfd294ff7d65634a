"""Sparse rules that take splits in groups, as a GPU does, against those that take them singly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from mrflearn.kernels.chart import Chart
from mrflearn.kernels.rules import applied_rules
from support.charts import Problem, make_problem, problems


def assert_same(problem: Problem, at_once: int = 2**20) -> None:
    """Tops, all spans and all counts are the same."""
    words, rules, start = (x.exp() for x in (problem.words, problem.rules, problem.start))
    phrases = problem.shape.phrases
    wide, narrow = (
        Chart.of(words, applied_rules(problem.shape, rules, at_once=size), phrases)
        for size in (at_once, 0)
    )
    for name in ("by_start", "by_end", "start_scale", "end_scale"):
        mine, other = getattr(wide.inside, name), getattr(narrow.inside, name)
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)
    lengths = torch.full((len(words),), words.shape[1])
    top, scale = narrow.top(lengths)
    total = (top * start[:phrases]).sum(dim=1)
    root = torch.where(top > 0, start[:phrases], 0.0)
    above = torch.where(total > 0, -(total.log() + scale), -torch.inf)
    weight = torch.arange(1.0, len(words) + 1, dtype=words.dtype)
    found, wanted = (
        chart.expected_counts(root, above, weight, lengths)[:2] for chart in (wide, narrow)
    )
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@given(problems(largest=3, longest=6))
def test_it_is_its_twin(problem: Problem) -> None:
    if problem.words.shape[1] > 1:
        assert_same(problem)


@pytest.mark.parametrize("at_once", [1, 200, 2**20], ids=str)
def test_splits_may_come_in_groups(at_once: int) -> None:
    problem = make_problem(5, 4, 11, seed=2, dense=False, sentences=3, forbidden=0.1)
    assert_same(problem, at_once)
