"""A lattice that has all states at every position is a chain, and gives its answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.kernels import lattice
from mrflearn.kernels import lattice as lattice_best
from mrflearn.kernels import lattice as lattice_sums
from mrflearn.kernels.chain_sums import Steps
from mrflearn.kernels.lattice import Lattice, LatticeEdges
from support import padded_chains as chain
from support.chains import ChainBatch, random_chains


def as_lattice(chains: ChainBatch) -> tuple[Lattice, Steps]:
    steps = Steps.of(chains.lengths, width=chains.unary.shape[1])
    states = chains.unary.shape[2]
    table = chains.transition.numpy()
    back = {q + steps.starting: row for q, row in enumerate(steps.previous.tolist())}

    def edges(nodes: np.ndarray) -> LatticeEdges:
        rows, state = np.divmod(nodes, states)
        before = np.array([back[row] for row in rows.tolist()])
        source = before[:, None] * states + np.arange(states)
        begin = np.arange(len(nodes)) * states
        score = table[:, state].T
        return LatticeEdges(source.ravel(), score.ravel(), begin, np.full(len(nodes), states))

    rows = np.concatenate([[0], np.cumsum(steps.sizes)]).astype(int)
    lengths = steps.lengths[steps.order].numpy()
    last = rows[lengths - 1] + np.arange(len(lengths))
    node = steps.pack(chains.unary.flatten(0, 1)).numpy().ravel()
    bounds = tuple((rows * states).tolist())
    return Lattice(node, edges, steps.sizes, bounds, last * states, (last + 1) * states), steps


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 500.0]),
)
def test_a_full_lattice_is_a_chain(
    seed: int, lengths: list[int], states: int, scale: float
) -> None:
    chains = random_chains(seed, lengths, states, scale=scale)
    made, steps = as_lattice(chains)
    order = steps.order.numpy()
    path = np.concatenate(lattice.viterbi(made)) % states
    expected, _ = chain.viterbi(chains.unary, chains.transition, chains.lengths)
    if scale:
        assert path.tolist() == steps.pack(expected.flatten()).tolist()
    log_z, chance = lattice_sums.marginals(made)
    value, single, _ = chain.marginals(chains.unary, chains.transition, chains.lengths)
    assert log_z.tolist() == pytest.approx(value.numpy()[order].tolist())
    assert lattice_sums.log_partition(made).tolist() == log_z.tolist()
    packed = steps.pack(single.flatten(0, 1)).numpy().ravel()
    np.testing.assert_allclose(chance, packed, atol=1e-9)
    paths, scores = lattice_best.n_best(made, 3)
    _, best = chain.n_best(chains.unary, chains.transition, chains.lengths, 3)
    np.testing.assert_allclose(scores, best.numpy()[order], rtol=1e-9, atol=1e-9)
    assert [len(step) for step in paths] == list(steps.sizes)
    if scale:
        assert (
            np.concatenate(paths)[:, 0].tolist() == np.concatenate(lattice.viterbi(made)).tolist()
        )


def test_largest_finds_the_first_of_ties() -> None:
    values = np.array([1.0, 3.0, 3.0, 0.0, 5.0])
    found = lattice.largest(values, np.array([0, 3, 2]), np.array([3, 1, 3]))
    assert found.tolist() == [1, 3, 4]


def test_lengths_are_laid_out_longest_first() -> None:
    chains = random_chains(3, [2, 4], 2)
    made, _ = as_lattice(chains)
    assert [len(step) for step in lattice.viterbi(made)] == [2, 2, 1, 1]
    assert torch.equal(chains.lengths, torch.tensor([2, 4]))
