"""Weights laid out as tables and bags: sums against a plain loop."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.models.incidence import Bags, WeightIncidence, WeightPlan

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


@given(SIZES, st.sampled_from([None, (0.0, 1.0), (0.0, 1.0, -2.5)]), st.integers(0, 99))
def test_scores_and_gradients_weigh_attributes_by_their_values(
    sizes: list[int], chosen: tuple[float, ...] | None, seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    count, labels = torch.tensor(sizes), 3
    attributes = torch.randint(6, (int(count.sum()),), generator=chance, dtype=torch.int32)
    values = None
    if chosen is not None:
        values = torch.tensor(chosen)[
            torch.randint(len(chosen), attributes.shape, generator=chance)
        ]
    pairs = (torch.rand(6, labels, generator=chance) < 0.5).nonzero().unbind(dim=1)
    plan = WeightPlan.of(pairs, 6, labels)
    features = CompiledFeatures(
        Numbering([f"a{k}" for k in range(6)], closed=True),
        (),
        count.new_tensor([len(sizes)]),
        count.cumsum(0),
        attributes,
        values,
        None,
    )
    incidence = WeightIncidence.of(plan, features, torch.float64).with_back()
    weights = torch.rand(len(pairs[0]), generator=chance, dtype=torch.float64)
    outer = torch.rand(len(sizes), labels, generator=chance, dtype=torch.float64)

    scores, gradient = torch.zeros_like(outer), torch.zeros_like(weights)
    owner = torch.arange(len(sizes)).repeat_interleave(count)
    for k, attribute in enumerate(attributes.tolist()):
        value = 1.0 if values is None else float(values[k])
        for weight, (own, label) in enumerate(zip(*pairs, strict=True)):
            if int(own) == attribute:
                scores[owner[k], label] += value * weights[weight]
                gradient[weight] += value * outer[owner[k], label]

    assert torch.allclose(incidence.scores(weights, plan.table(weights)), scores)
    found = incidence.pulled_back(outer, plan, torch.zeros_like(weights))
    assert torch.allclose(found, gradient)
