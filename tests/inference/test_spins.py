"""Sweeps by log-odds draw from the same conditionals as sweeps by tables."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mrflearn.graph.builders import complete, grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials, dense_potentials
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.sampling import Conditionals, Gibbs, colouring
from mrflearn.inference.spins import SpinSweeps
from support.fields import random_field, tiny_field

# Every variable two states; two tables over one pair, in both orders; one variable alone.
AWKWARD = ((0,), (0,), (0, 1), (1, 0), (1, 2), (3, 0), (3, 2), (4,))


def awkward(seed: int = 0) -> Potentials:
    return random_field(seed, states=(2,) * 6, scopes=AWKWARD)


def drawn(field: Potentials, sweeps: int, chains: int, share: float | Tensor = 1.0) -> Tensor:
    spins = SpinSweeps.of(field, colouring(field.graph))
    assert spins is not None
    states = torch.zeros(field.graph.variables, chains, dtype=torch.int64)
    spins.sweep(states, torch.Generator().manual_seed(1), share, sweeps)
    return states


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_each_variable_is_drawn_by_its_conditional(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With u = 1/2 for all, a sweep is a decision by the sign of log-odds, colour by colour."""
    field = awkward(3)
    half = lambda shape, **_: torch.full(tuple(shape), 0.5)  # noqa: E731
    monkeypatch.setattr(torch, "rand", half)
    found = drawn(field, 3, 4, share)
    slow, states = Conditionals.of(field), torch.zeros(6, 4, dtype=torch.int64)
    for _ in range(3):
        for colour in slow.colours:
            scores = colour.scores(states, share)
            states[colour.variables] = (scores[1] > scores[0]).long()
    assert torch.equal(found, states)


def test_the_stationary_distribution_is_that_of_the_field() -> None:
    field, chains = awkward(5), 20_000
    states = drawn(field, 30, chains)
    truth = Enumeration()(field)
    # Independent chains: five standard deviations of a frequency.
    error = 5 * math.sqrt(0.25 / chains)
    assert float((states.double().mean(1) - truth.variables[:, 1]).abs().max()) < error
    together = (states[0] * states[3]).double().mean()
    pair = field.graph.groups[1].scope.tolist().index([3, 0])
    assert abs(float(together - truth.factors[1][pair, 1, 1])) < error


def test_each_chain_may_have_its_own_share() -> None:
    field = dense_potentials([2], [([0], [0.0, 2.0])])
    share = torch.tensor([0.0, 0.5, 1.0]).repeat_interleave(20_000)
    seen = drawn(field, 1, 60_000, share).double().view(3, -1).mean(1)
    expected = torch.sigmoid(torch.tensor([0.0, 1.0, 2.0])).double()
    assert float((seen - expected).abs().max()) < 5 * math.sqrt(0.25 / 20_000)


def test_log_odds_out_of_range_decide() -> None:
    field = dense_potentials([2, 2], [([0], [0.0, 500.0]), ([1], [500.0, 0.0])])
    assert drawn(field, 2, 50).float().mean(1).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "field",
    [
        tiny_field("chain"),
        tiny_field("triple factors"),
        random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=1.0),
        random_ising(complete(40), seed=0),
    ],
    ids=["states", "triples", "forbidden", "crowded"],
)
def test_other_fields_are_left_to_tables(field: Potentials) -> None:
    assert SpinSweeps.of(field, colouring(field.graph)) is None
    assert Conditionals.of(field).spins is None


def test_gibbs_takes_the_fast_way() -> None:
    field = random_ising(grid(3, 3), scale=0.5, seed=0)
    assert Conditionals.of(field).spins is not None
    lower, upper = Gibbs(sweeps=400, burn_in=50).run(field, seed=0).intervals(0.9999)
    truth = Enumeration()(field).variables
    assert bool(((lower <= truth) & (truth <= upper)).all())
