from __future__ import annotations

import weakref

import pytest
import torch
from torch.testing import assert_close

from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import Steps, forward_backward, forward_only
from support import padded_chains as chain
from support.chains import random_chains

# State 1 starts e^-100 behind, beneath float32, and wins step by step; nothing mixes the states.
LATE_WINNER = torch.tensor([[0.0, -100.0]] + [[-20.0, 0.0]] * 8)
APART = torch.tensor([[0.0, -300.0], [-300.0, 0.0]])


def test_lost_paths_that_win_in_the_end_are_found():
    steps = Steps.of(torch.tensor([9]))
    assert not forward_only(LATE_WINNER, APART, steps)[1].any()
    assert not forward_backward(LATE_WINNER, APART, steps).trusted.any()
    value, single, pair = chain_sums.marginals(LATE_WINNER, APART, steps)
    assert_close(value, torch.tensor([-100.0]).double())
    assert_close(single[0], torch.tensor([0.0, 1.0]))
    assert_close(pair[0], torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    assert_close(chain_sums.log_partition(LATE_WINNER, APART, steps), value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_a_trained_model_stay_on_the_fast_path(dtype):
    chains = random_chains(0, [80, 40, 3], 22, scale=5.0, dtype=dtype)
    steps = Steps.of(chains.lengths, width=80)
    rows = steps.pack(chains.unary.flatten(0, 1))
    assert forward_backward(rows, chains.transition, steps).trusted.all()


def test_sums_over_long_sequences_keep_their_digits():
    chains = random_chains(1, [5000], 4, scale=5.0, dtype=torch.float32)
    steps = Steps.of(chains.lengths)
    rows, moves = chains.unary[0], chains.transition
    exact = chain_sums.log_partition(rows.double(), moves.double(), steps)
    assert abs(float(chain_sums.log_partition(rows, moves, steps) - exact)) < 1e-3


def test_one_lost_sequence_does_not_slow_the_others():
    steps = Steps.of(torch.tensor([9, 9]))
    tokens = torch.cat([LATE_WINNER, torch.zeros(9, 2)])
    trusted = forward_backward(steps.pack(tokens), APART, steps).trusted
    assert trusted.tolist() == [False, True]


@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_pair_counts_are_weighted_sums_of_pair_probabilities(scale):
    chains = random_chains(3, [5, 2, 0, 7], 3, scale=scale, forbidden=0.1)
    steps = Steps.of(chains.lengths, width=7)
    rows = steps.pack(chains.unary.flatten(0, 1))
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)
    found = chain_sums.expectations(rows, chains.transition, steps)
    _, _, pair = chain.marginals(chains.unary, chains.transition, chains.lengths)
    assert_close(found.pair_counts(steps), pair.sum(dim=(0, 1)))
    weighted = (pair * weight[:, None, None, None]).sum(dim=(0, 1))
    assert_close(found.pair_counts(steps, weight), weighted)


def test_memory_of_a_gradient_is_given_back_at_once():
    chains = random_chains(0, [4, 3], 2)
    unary = chains.unary.requires_grad_()
    value = chain.log_partition(unary, chains.transition, chains.lengths)
    held = weakref.ref(value.grad_fn.shared)
    del value
    assert held() is None


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_log_partition_less_the_score_of_a_path(shared, scale):
    """The same as the difference, and its gradient, also where log space has to help."""
    chains = random_chains(4, [5, 0, 1, 6], 3, shared=shared, scale=scale)
    steps = Steps.of(chains.lengths, width=6)
    rows, table = steps.pack(chains.unary.flatten(0, 1)), chains.transition
    if not shared:
        place = steps.sequence * 5 + steps.position - 1
        table = table.flatten(0, 1)[place[steps.starting :]]
    path = torch.randint(3, (len(steps),), generator=torch.Generator().manual_seed(0))
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)
    found, wanted = [], []
    for kept in (found, wanted):
        leaves = [own.clone().requires_grad_() for own in (rows, table)]
        if kept is found:
            value = chain_sums.log_partition(*leaves, steps, path)
        else:
            scores = chain_sums.row_scores(*leaves, path, steps)
            value = chain_sums.log_partition(*leaves, steps) - steps.totals(scores)
        kept += [value, *torch.autograd.grad(value @ weight, leaves)]
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert_close(chain_sums.log_partition(rows, table, steps, path), wanted[0].detach())
