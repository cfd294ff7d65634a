"""Power iteration where it is hard: matrices that go round, vectors far from what matters."""

from __future__ import annotations

import pytest
import torch

from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.chain_bound import ChainScores
from mrflearn.inference.perron import PerronVectors, certify, follow


def chain_of(table: torch.Tensor) -> ChainScores:
    """The single chain whose matrix has these logarithms."""
    states = len(table)
    scores = NeighbourScores(
        torch.zeros(states).double(), torch.eye(states).double()[None], table.T[None]
    )
    duals = torch.zeros(1, states, dtype=torch.float64)
    return ChainScores.of(*scores.pairwise, duals, torch.ones(1, dtype=torch.float64))


def value_of(chain: ChainScores, vectors: PerronVectors) -> float:
    return float(chain.quotients(vectors.left, vectors.right) - vectors.overlap())


def test_vectors_do_not_go_round_with_the_matrix():
    table = torch.full((3, 3), -20.0, dtype=torch.float64)
    table[[0, 1, 2], [1, 2, 0]] = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    chain = chain_of(table)
    start = torch.tensor([[3.0, 0.0, -3.0]], dtype=torch.float64)
    found = follow(chain, PerronVectors(start, start), tolerance=1e-12, most=400, gap=1e-9)
    assert value_of(chain, found) == pytest.approx(0.5 / 3, abs=1e-6)
    assert certify(chain, found.right).upper == pytest.approx(0.5 / 3, abs=1e-6)


def test_a_gap_finds_states_that_vectors_hardly_reach():
    table = torch.full((2, 2), -60.0, dtype=torch.float64)
    table[0, 0], table[1, 1] = 0.0, 2.0
    chain = chain_of(table)
    lost = torch.tensor([[0.0, -60.0]], dtype=torch.float64)
    still = follow(chain, PerronVectors(lost, lost), tolerance=1e-9, most=400)
    assert value_of(chain, still) == pytest.approx(0.0, abs=1e-6)
    found = follow(chain, PerronVectors(lost, lost), tolerance=1e-9, most=400, gap=1e-3)
    assert value_of(chain, found) == pytest.approx(2.0, abs=1e-6)
