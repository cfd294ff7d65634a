"""Searches through sequences so long that sums of scores outgrow single precision."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels import chain_search
from mrflearn.kernels.chain_sums import Steps

LENGTHS = torch.tensor([0, 700, 3, 64, 65, 1])


def problem(shared: bool) -> tuple[torch.Tensor, torch.Tensor, Steps]:
    generator = torch.Generator().manual_seed(5)
    steps = Steps.of(LENGTHS)
    unary = torch.randn(len(steps), 4, generator=generator) + 5000  # 700 of them make 3.5 million
    tables = 1 if shared else len(steps) - steps.starting
    table = torch.randn(tables, 4, 4, generator=generator)
    return unary, table[0] if shared else table, steps


@pytest.mark.parametrize("shared", [True, False])
def test_single_precision_finds_what_double_precision_does(shared: bool) -> None:
    unary, table, steps = problem(shared)
    states, scores = chain_search.viterbi(unary, table, steps)
    sure, exact = chain_search.viterbi(unary.double(), table.double(), steps)
    torch.testing.assert_close(scores.double(), exact, rtol=1e-6, atol=1e-6)
    # Where two paths are all but equal either may be found, and few are.
    assert float((states != sure).double().mean()) < 0.01


@pytest.mark.parametrize("shared", [True, False])
def test_the_best_few_are_told_apart(shared: bool) -> None:
    unary, table, steps = problem(shared)
    paths, scores = chain_search.n_best(unary, table, steps, 4)
    _, exact = chain_search.n_best(unary.double(), table.double(), steps, 4)
    torch.testing.assert_close(scores.double(), exact, rtol=1e-6, atol=1e-6)
    of_longest = paths[steps.sequence == 1]
    assert len(set(map(tuple, of_longest.T.tolist()))) == 4


def test_the_impossible_stays_impossible() -> None:
    steps = Steps.of(torch.tensor([130, 130]))
    unary, table = torch.zeros(260, 2), torch.zeros(2, 2)
    unary[steps.sequence == 1] = -torch.inf
    assert chain_search.viterbi(unary, table, steps)[1].tolist() == [0.0, -torch.inf]
    assert chain_search.n_best(unary, table, steps, 1)[1].tolist() == [[0.0], [-torch.inf]]
