"""Chains small enough to list every assignment of, with every awkward thing they may have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ChainBatch:
    unary: Tensor  # b n s
    transition: Tensor  # s s, or b n-1 s s
    lengths: Tensor  # b


def random_chains(
    seed: int,
    lengths: list[int],
    states: int,
    *,
    shared: bool = True,
    scale: float = 1.0,
    forbidden: float = 0.0,
    padding: int = 0,
    dtype: torch.dtype = torch.float64,
) -> ChainBatch:
    """Normal scores; a share `forbidden` is -inf; positions beyond a length hold numbers too."""
    generator = torch.Generator().manual_seed(seed)
    b, n = len(lengths), max(lengths, default=0) + padding

    def scores(*shape: int) -> Tensor:
        table = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        hidden = torch.rand(shape, generator=generator, dtype=torch.float64) < forbidden
        return table.masked_fill(hidden, -torch.inf).to(dtype)

    table = scores(states, states) if shared else scores(b, max(n - 1, 0), states, states)
    return ChainBatch(scores(b, n, states), table, torch.tensor(lengths, dtype=torch.int64))


@st.composite
def chain_batches(draw: st.DrawFn) -> ChainBatch:
    """Lengths 0 to 6, labels 1 to 5 (fewer for long ones), shared tables or one a step."""
    states = draw(st.integers(1, 5))
    longest = 6 if states <= 3 else 4
    return random_chains(
        draw(st.integers(0, 10**6)),
        draw(st.lists(st.integers(0, longest), max_size=4)),
        states,
        shared=draw(st.booleans()),
        scale=draw(st.sampled_from([0.0, 1.0, 20.0, 500.0])),
        forbidden=draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])),
        padding=draw(st.integers(0, 2)),
    )


def every_path(chains: ChainBatch, i: int) -> tuple[Tensor, Tensor]:
    """All assignments of sequence i, one a row, and their scores."""
    length, states = int(chains.lengths[i]), chains.unary.shape[2]
    paths = torch.tensor(list(itertools.product(range(states), repeat=length)), dtype=torch.int64)
    paths = paths.reshape(states**length, length)
    scores = chains.unary.new_zeros(len(paths))
    for t in range(length):
        scores = scores + chains.unary[i, t, paths[:, t]]
        if t:
            shared = chains.transition.ndim == 2
            table = chains.transition if shared else chains.transition[i, t - 1]
            scores = scores + table[paths[:, t - 1], paths[:, t]]
    return paths, scores


def listed_marginals(chains: ChainBatch) -> tuple[Tensor, Tensor, Tensor]:
    """log Z, state and pair probabilities by listing every assignment."""
    b, n, s = chains.unary.shape
    value = chains.unary.new_zeros(b)
    single = chains.unary.new_zeros(b, n, s)
    pair = chains.unary.new_zeros(b, max(n - 1, 0), s, s)
    for i in range(b):
        paths, scores = every_path(chains, i)
        value[i] = scores.logsumexp(0)
        chance = (scores - value[i]).exp() if value[i] > -torch.inf else torch.zeros_like(scores)
        for t in range(paths.shape[1]):
            single[i, t].index_add_(0, paths[:, t], chance)
            if t:
                pair[i, t - 1].index_put_((paths[:, t - 1], paths[:, t]), chance, accumulate=True)
    return value, single, pair
