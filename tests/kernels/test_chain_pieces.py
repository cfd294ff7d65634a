"""Pieces of chains in linear space against log space, and log space against its definition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.kernels import chain_pieces
from mrflearn.kernels.chain_pieces import ChainLoss, sides
from mrflearn.kernels.chain_sums import Steps
from support import chain_pieces as plain_pieces

KINDS = ("pw", "pwpl")
Case = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Steps]


def case(lengths: list[int], states: int, seed: int, spread: float = 1.0) -> Case:
    """Scores, a table, labels and amounts of chains of these lengths."""
    draw = torch.Generator().manual_seed(seed)
    steps, rows = Steps.of(torch.tensor(lengths)), sum(lengths)
    unary = spread * torch.randn(rows, states, generator=draw, dtype=torch.float64)
    table = spread * torch.randn(states, states, generator=draw, dtype=torch.float64)
    gold = torch.randint(states, (rows,), generator=draw)
    own = torch.rand(len(lengths), generator=draw, dtype=torch.float64)
    return unary, table, gold, own[steps.sequence], steps


def sums(kind: str, found: Case, safe: bool = False) -> ChainLoss:
    unary, table, gold, amount, steps = found
    kernel = plain_pieces if safe else chain_pieces
    if kind == "pw":
        return kernel.whole_pieces(unary, table, gold, steps, amount)
    own = sides(gold, steps, amount, table.shape[0])
    return kernel.given_neighbours(unary, table, gold, *own)


def pieces(kind: str, found: Case) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """How much each piece counts, the scores of its states, and that of its labels."""
    unary, table, gold, amount, steps = found
    for row, before in enumerate(steps.previous.tolist(), start=steps.starting):
        if kind == "pw":
            both = unary[before][:, None] + table + unary[row]
            yield amount[row], both.flatten(), both[gold[before], gold[row]]
        else:
            later = unary[row] + table[gold[before]]
            earlier = unary[before] + table[:, gold[row]]
            yield amount[row], later, later[gold[row]]
            yield amount[row], earlier, earlier[gold[before]]
    for row in range(steps.sizes[1] if len(steps.sizes) > 1 else 0, steps.starting):
        yield amount[row], unary[row], unary[row, gold[row]]


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 10**6)
)
def test_values_and_slopes_are_those_of_the_definition(
    kind: str, safe: bool, lengths: list[int], states: int, seed: int
) -> None:
    unary, table, *rest = case(lengths, states, seed)
    unary.requires_grad_()
    table.requires_grad_()
    written_out = list(pieces(kind, (unary, table, *rest)))
    losses = [times * (scores.logsumexp(0) - own) for times, scores, own in written_out]
    value = torch.stack(losses).sum()
    slopes = torch.autograd.grad(value, (unary, table), allow_unused=True, materialize_grads=True)
    found = sums(kind, (unary.detach(), table.detach(), *rest), safe)
    torch.testing.assert_close(found.value, value.detach())
    torch.testing.assert_close(found.single, slopes[0])
    torch.testing.assert_close(found.pair, slopes[1])


@pytest.mark.parametrize("kind", KINDS)
def test_scores_beyond_the_float_range_are_done_in_log_space(kind: str) -> None:
    unary, table, *rest = case([7, 3, 3, 1], 5, 0, spread=80.0)
    exact = sums(kind, (unary, table, *rest), safe=True)
    gold, amount, steps = rest
    found = sums(kind, (unary.float(), table.float(), gold, amount.float(), steps))
    torch.testing.assert_close(found.value, exact.value, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(found.single.double(), exact.single, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found.pair.double(), exact.pair, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_lost_piece_leaves_the_others_in_linear_space(kind: str) -> None:
    unary, table, gold, _, steps = case([4, 4], 3, 0)
    unary, table, amount = unary.float(), table.float(), torch.ones(8)
    table[0] = table[:, 0] = -300.0
    hurt, last = unary.clone(), steps.sequence == 1
    hurt[last] = torch.tensor([0.0, -400.0, -400.0])
    alone = sums(kind, (unary, table, gold, amount, steps)).single
    found = sums(kind, (hurt, table, gold, amount, steps))
    assert torch.equal(found.single[~last], alone[~last])
    exact = sums(kind, (hurt.double(), table.double(), gold, amount.double(), steps), safe=True)
    torch.testing.assert_close(found.single.double(), exact.single, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.value, exact.value, rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_keep_their_digits_where_log_partitions_are_large(kind: str) -> None:
    unary, table, gold, amount, steps = case([40] * 50, 5, 0)
    unary[torch.arange(len(gold)), gold] += 8.0  # the labels are nearly sure
    level = 1000.0 * torch.rand(len(unary), 1, generator=torch.Generator().manual_seed(1))
    unary = (unary + level).float()
    table, amount = table.float(), torch.ones_like(amount).float()
    found = sums(kind, (unary, table, gold, amount, steps))
    exact = sums(kind, (unary.double(), table.double(), gold, amount.double(), steps), safe=True)
    torch.testing.assert_close(found.value, exact.value, rtol=1e-6, atol=0)
