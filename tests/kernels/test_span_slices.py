"""Charts with the tables of GPUs against those with the tables of processors, on the processor."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from mrflearn.kernels.chart import ListedChart
from mrflearn.kernels.chart_dense import GrammarWeights, near_one
from support.charts import Problem, make_problem, problems


def assert_same(problem: Problem) -> None:
    """Tops, all spans and all counts are the same."""
    grammar = GrammarWeights.of(problem.rules, problem.start, problem.shape)
    words, _ = near_one(problem.words)
    wide, narrow = (ListedChart.of(words, grammar, wide=kind) for kind in (True, False))
    tops = [value.log() + scale.unsqueeze(1) for value, scale in (wide.top(), narrow.top())]
    torch.testing.assert_close(tops[0], tops[1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(wide.log_inside(), narrow.log_inside(), rtol=1e-10, atol=1e-12)
    top, scale = narrow.top()
    total = (top * grammar.start_phrases).sum(dim=1)
    root = torch.where(top > 0, grammar.start_phrases, 0.0)
    above = torch.where(total > 0, -(total.log() + scale), -torch.inf)
    weight = torch.arange(1.0, len(words) + 1, dtype=words.dtype)
    found, wanted = (chart.expected_counts(root, above, weight) for chart in (wide, narrow))
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@settings(max_examples=30)
@given(problems(largest=3, longest=6))
def test_it_is_its_twin(problem: Problem) -> None:
    if problem.words.shape[1] > 1:
        assert_same(problem)


@pytest.mark.parametrize("at_once", [1, 200, 2**20], ids=str)
def test_splits_may_come_in_groups(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrflearn.kernels.spans.AT_ONCE", at_once)
    assert_same(make_problem(5, 4, 11, seed=2, dense=False, sentences=3, forbidden=0.1))
