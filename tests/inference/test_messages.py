from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from mrflearn.inference.messages import direction, joint, normalise, send
from mrflearn.inference.sampling import Facet

SHAPES = [(2, 2), (3, 2), (1, 4), (2, 3, 4), (2, 1, 2, 3), (12, 11)]


def random(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_send(table: Tensor, inboxes: list[Tensor], axis: int, *, largest: bool) -> Tensor:
    """One entry at a time, in Python numbers."""
    *shape, factors = table.shape
    out = torch.full((shape[axis], factors), -math.inf, dtype=table.dtype)
    for f in range(factors):
        for state in range(shape[axis]):
            terms = [
                float(table[(*cell, f)])
                + sum(float(inboxes[k][cell[k], f]) for k in range(len(shape)) if k != axis)
                for cell in itertools.product(*map(range, shape))
                if cell[axis] == state
            ]
            out[state, f] = max(terms) if largest else math.log(sum(map(math.exp, terms)))
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_sending_is_summing_out_all_other_axes(shape: tuple[int, ...]) -> None:
    table = random((*shape, 3))
    inboxes = [random((s, 3), seed=k + 1) for k, s in enumerate(shape)]
    weights = [torch.exp(inbox - inbox[:1])[1:] for inbox in inboxes]
    for axis in range(len(shape)):
        slow = slow_send(table, inboxes, axis, largest=False)
        torch.testing.assert_close(send(table, inboxes, axis, torch.logsumexp), slow)
        torch.testing.assert_close(
            send(table, inboxes, axis, torch.amax), slow_send(table, inboxes, axis, largest=True)
        )
        soft = direction(table.exp(), weights, axis)().log()
        torch.testing.assert_close(normalise(soft), normalise(slow))


@pytest.mark.parametrize("shape", SHAPES)
def test_joint_scores_and_means_by_hand(shape: tuple[int, ...]) -> None:
    table = random((*shape, 2))
    inboxes = [random((s, 2), seed=k + 1) for k, s in enumerate(shape)]
    beliefs = [torch.softmax(inbox, 0) for inbox in inboxes]
    cell = tuple(s - 1 for s in shape)
    expected = table[(*cell, 1)] + sum(inboxes[k][s, 1] for k, s in enumerate(cell))
    torch.testing.assert_close(joint(table, inboxes)[(*cell, 1)], expected)
    mean = expect(table, beliefs)
    whole = joint(torch.zeros_like(table), [b.log() for b in beliefs]).exp() * table
    torch.testing.assert_close((mean * beliefs[0]).sum(0), whole.flatten(0, -2).sum(0))


def expect(table: Tensor, beliefs: list[Tensor]) -> Tensor:
    """The mean of tables (factors last) over independent states of all axes but the first."""
    states, *sizes, factors = table.shape
    cells = math.prod(sizes)
    most = max(sizes, default=1)
    single = table.new_zeros(factors * len(sizes), most)
    others, stride = [], cells
    for k, (size, belief) in enumerate(zip(sizes, beliefs[1:], strict=True)):
        own = torch.arange(factors) + k * factors
        single[own, :size] = belief.T
        stride //= size
        others.append((own, size, stride))
    rows = table.movedim(-1, 1).reshape(states, -1)
    number = torch.arange(factors)
    return Facet(rows, number[:, None] * cells, tuple(others), number, 0).expect(single)


def test_a_mean_ignores_forbidden_states_of_no_weight() -> None:
    table = torch.tensor([[0.0, -math.inf], [1.0, 2.0]]).unsqueeze(-1)
    sure = torch.tensor([[1.0], [0.0]])
    assert expect(table, [sure, sure]).squeeze().tolist() == [0.0, 1.0]
    unsure = torch.tensor([[0.5], [0.5]])
    assert expect(table, [sure, unsure]).squeeze().tolist() == [-math.inf, 1.5]


def test_what_is_ruled_out_stays_out() -> None:
    never = torch.full((2, 1), -math.inf)
    assert torch.equal(normalise(never), never)
