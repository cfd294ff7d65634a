"""Weights laid out as tables and bags: sums against a plain loop."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mrflearn.models.incidence import Bags

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def _bags(sizes: list[int], weighted: bool, seed: int) -> tuple[Bags, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    count = torch.tensor(sizes)
    index = torch.randint(5, (int(count.sum()),), generator=chance)
    value = torch.rand(len(index), generator=chance, dtype=torch.float64) if weighted else None
    table = torch.rand(5, 3, generator=chance, dtype=torch.float64)
    return Bags(index, count.cumsum(0) - count, value), table


def _plain(bags: Bags, table: Tensor) -> Tensor:
    ends = [*bags.begin.tolist()[1:], len(bags.index)]
    rows = []
    for begin, end in zip(bags.begin.tolist(), ends, strict=True):
        value = torch.ones(len(bags.index)) if bags.value is None else bags.value
        rows.append((table[bags.index[begin:end]] * value[begin:end, None]).sum(dim=0))
    return torch.stack(rows)


@given(SIZES, st.booleans(), st.integers(1, 4), st.integers(0, 99))
def test_pieces_of_bags_add_up_to_the_bags(
    sizes: list[int], weighted: bool, longest: int, seed: int
) -> None:
    bags, table = _bags(sizes, weighted, seed)
    pieces = bags.in_pieces(longest)
    wanted = _plain(bags, table)
    assert torch.allclose(bags.sums(table), wanted)
    assert torch.allclose(pieces.sums(table), wanted)
    ends = torch.cat([pieces.begin[1:], torch.tensor([len(bags.index)])])
    assert int((ends - pieces.begin).max()) <= longest
    assert pieces.count == bags.count == len(sizes)
