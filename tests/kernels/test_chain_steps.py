from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.kernels.chain_sums import Steps

LENGTHS = st.lists(st.integers(0, 6), max_size=6).map(lambda n: torch.tensor(n, dtype=torch.int64))


@given(LENGTHS)
def test_every_token_has_one_row_and_follows_its_neighbour(lengths):
    steps = Steps.of(lengths)
    assert sorted(steps.source.tolist()) == list(range(int(lengths.sum())))
    assert (steps.source[steps.previous] == steps.source[steps.starting :] - 1).all()
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    assert (owner[steps.source] == steps.sequence).all()


@given(LENGTHS, st.integers(0, 3))
def test_packing_a_padded_batch_and_back(lengths, padding):
    width = int(lengths.max()) + padding if len(lengths) else padding
    steps = Steps.of(lengths, width=width)
    tokens = torch.arange(1, len(lengths) * width + 1)
    inside = torch.arange(width) < lengths[:, None]
    back = steps.unpack(steps.pack(tokens), len(tokens))
    assert (back == torch.where(inside.flatten(), tokens, 0)).all()


@given(LENGTHS)
def test_totals_are_sums_over_sequences(lengths):
    steps = Steps.of(lengths)
    assert (steps.totals(torch.ones(len(steps))) == lengths).all()


def test_steps_shrink_as_sequences_end():
    steps = Steps.of(torch.tensor([1, 3, 0, 2]))
    assert steps.sizes == (3, 2, 1)
    assert steps.order.tolist() == [1, 3, 0, 2]
