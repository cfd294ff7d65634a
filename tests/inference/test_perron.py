"""Power iteration where it is hard: matrices that go round, vectors far from what matters."""

from __future__ import annotations

import pytest
import torch

from mrflearn.inference.perron import LowRankMatrices, WindowMatrix, certify, follow, overlap


def chain_of(table: torch.Tensor) -> LowRankMatrices:
    """The single chain whose matrix has these logarithms."""
    zeros, unit = table.new_zeros(len(table)), torch.eye(len(table)).to(table)
    return LowRankMatrices(unit[None], table.T[None], zeros[None], table.new_ones(1))


def value_of(chain: LowRankMatrices, vectors: torch.Tensor) -> float:
    return float(chain.quotients(vectors) - overlap(vectors))


def test_vectors_do_not_go_round_with_the_matrix():
    table = torch.full((3, 3), -20.0, dtype=torch.float64)
    table[[0, 1, 2], [1, 2, 0]] = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    chain = chain_of(table)
    start = torch.tensor([[3.0, 0.0, -3.0]], dtype=torch.float64)
    found, _ = follow(chain, torch.stack((start, start)), tolerance=1e-12, most=400, gap=1e-9)
    assert value_of(chain, found) == pytest.approx(0.5 / 3, abs=1e-6)
    assert certify(chain, found[1]).upper == pytest.approx(0.5 / 3, abs=1e-6)


def test_a_gap_finds_states_that_vectors_hardly_reach():
    table = torch.full((2, 2), -60.0, dtype=torch.float64)
    table[0, 0], table[1, 1] = 0.0, 2.0
    chain = chain_of(table)
    lost = torch.tensor([[0.0, -60.0]], dtype=torch.float64)
    still, _ = follow(chain, torch.stack((lost, lost)), tolerance=1e-9, most=400)
    assert value_of(chain, still) == pytest.approx(0.0, abs=1e-6)
    found, _ = follow(chain, torch.stack((lost, lost)), tolerance=1e-9, most=400, gap=1e-3)
    assert value_of(chain, found) == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(20))
def test_the_value_is_right_where_eigenvalues_are_nearly_as_large(dtype, seed):
    """Blocks that hardly feed each other, cycles, and vectors that begin with a wrong block."""
    generator = torch.Generator().manual_seed(seed)
    states = 30
    table = torch.randn(states, states, generator=generator, dtype=torch.float64) - 3
    blocks = torch.arange(states) // 10
    table -= 30.0 * (blocks[:, None] != blocks)
    around = torch.arange(10)
    table[around, (around + 1) % 10] += 4.0  # one block goes round
    table[[25, 26], [25, 26]] += torch.tensor([6.0, 6.05], dtype=torch.float64)
    largest = torch.linalg.eigvals(table.exp()).abs().max().log()
    chain = chain_of(table.to(dtype))
    start = torch.full((1, states), -50.0, dtype=dtype)
    start[0, :10] = 0.0
    found, _ = follow(chain, torch.stack((start, start)), tolerance=1e-6, most=30, gap=1e-2)
    assert value_of(chain, found) == pytest.approx(float(largest), abs=1e-3)


def test_limits_hold_where_sums_are_below_the_types_range():
    """Every sum is e^-800, which float64 has only as its least number, e^-708."""
    far = torch.tensor([[0.0, -800.0], [0.0, -800.0]], dtype=torch.float64)
    windows = WindowMatrix(far.flip(1), far, torch.ones(1, dtype=torch.float64))
    largest = -800.0 + torch.tensor(2.0).log().item()
    found = certify(windows, torch.zeros(1, 4, dtype=torch.float64))
    assert found.lower <= largest <= found.upper
