from __future__ import annotations

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials, batch, dense_potentials
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.sampling import Gibbs, effective_draws, split_r_hat
from support.fields import random_field, tiny_field


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", ["grid 2x3", "triple factors", "square with chord"])
def test_marginals_and_diagnostics(shape: str) -> None:
    field = tiny_field(shape, seed=2)
    run = Gibbs(sweeps=300, burn_in=50, chains=100, thin=3).run(field, seeded())
    assert run.states.shape == (100, 100, field.graph.variables)
    truth = Enumeration()(field).variables
    torch.testing.assert_close(run.marginals(), truth, atol=0.03, rtol=0)
    assert float(run.r_hat().max()) < 1.05
    assert 1000 < float(run.effective_draws()) <= 10000
    torch.testing.assert_close(run.scores[7], field.score(run.states[7]))


def colour_map(side: int, colours: int) -> Potentials:
    """Neighbours of a grid must differ: every assignment that is possible is equally likely."""
    differ = torch.zeros(colours, colours).double()
    differ.fill_diagonal_(-torch.inf)
    number = torch.arange(side * side).reshape(side, side)
    pairs = torch.cat(
        [
            torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()], 1),
            torch.stack([number[:-1].flatten(), number[1:].flatten()], 1),
        ]
    )
    return dense_potentials([colours] * side**2, [(tuple(p), differ) for p in pairs.tolist()])


def test_chains_start_from_possible_states_and_stay_there() -> None:
    field = colour_map(12, 4)
    samples = Gibbs(chains=8, burn_in=0, thin=1).sample(field, 24, seeded())
    assert bool((field.score(samples) == 0).all())
    assert len(samples.unique(dim=0)) == 24


def test_a_stuck_field_is_seen_in_r_hat() -> None:
    # Two colours allow two assignments, and no single change leads from one to the other.
    run = Gibbs(sweeps=40, burn_in=10, chains=8, thin=1).run(colour_map(3, 2), seeded(1))
    assert float(run.r_hat().min()) == torch.inf


def test_a_field_without_possible_states_is_refused_by_name() -> None:
    fine = random_field(0, states=(2, 2), scopes=((0, 1),))
    never = random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=1.0)
    with pytest.raises(InferenceError, match="component 1: no state of positive probability"):
        Gibbs().sample(batch([fine, never]), 3, seeded())


def test_settings_are_checked() -> None:
    with pytest.raises(InferenceError, match="at least 1"):
        Gibbs(chains=0)
    with pytest.raises(InferenceError, match="at least thin"):
        Gibbs(sweeps=5, thin=10)


def test_a_seed_serves_in_place_of_a_generator() -> None:
    field, gibbs = tiny_field("chain"), Gibbs(sweeps=20, burn_in=5, chains=4)
    assert torch.equal(gibbs.run(field, seed=3).states, gibbs.run(field, seeded(3)).states)


def test_fewer_samples_than_chains() -> None:
    assert Gibbs(burn_in=0).sample(tiny_field("pair"), 3, seeded()).shape == (3, 2)
    assert Gibbs(burn_in=0).sample(tiny_field("pair"), 0, seeded()).shape == (0, 2)


def test_effective_draws_of_an_autoregression() -> None:
    # x' = a x + noise is worth (1 - a) / (1 + a) independent draws a draw.
    generator, a, draws, chains = seeded(3), 0.8, 2000, 8
    noise = torch.randn(draws, chains, generator=generator).double()
    trace = [noise[0] / (1 - a * a) ** 0.5]
    for step in noise[1:]:
        trace.append(a * trace[-1] + step)
    stacked = torch.stack(trace)
    expected = draws * chains * (1 - a) / (1 + a)
    assert float(effective_draws(stacked)) == pytest.approx(expected, rel=0.2)
    assert float(split_r_hat(stacked)) < 1.02
    assert float(effective_draws(noise)) == pytest.approx(draws * chains, rel=0.1)
    apart = noise + 3 * torch.arange(chains)
    assert float(split_r_hat(apart)) > 3
    assert float(effective_draws(apart)) < 20


def test_diagnostics_of_constants_and_of_too_little() -> None:
    still = torch.ones(10, 3)
    assert float(split_r_hat(still)) == 1.0
    assert float(effective_draws(still)) == 30
    with pytest.raises(InferenceError, match="4 draws"):
        split_r_hat(still[:3])
    with pytest.raises(InferenceError, match="4 draws"):
        effective_draws(still[:3])


@pytest.mark.parametrize(
    ("scale", "chains", "sweeps"), [(0.5, 16, 40), (1.2, 16, 80), (0.7, 4, 100)]
)
def test_intervals_cover(scale: float, chains: int, sweeps: int) -> None:
    """95 % intervals hold the truth in at least 90 % of 30 runs of 16 variables.

    With a coverage of 95 % fewer are 2.3 standard deviations away even if variables of a run count
    as three independent ones; error bars half as long as they should be cover 67 %.
    """
    field = random_ising(grid(4, 4), scale=scale, seed=1)
    truth = Enumeration()(field).variables
    gibbs = Gibbs(sweeps=sweeps, burn_in=50, chains=chains, thin=2)
    covered = []
    for seed in range(30):
        lower, upper = gibbs.run(field, seed=seed).intervals(0.95)
        covered.append(((lower <= truth) & (truth <= upper)).double().mean())
    assert float(torch.stack(covered).mean()) > 0.9


def test_intervals_are_not_far_too_long() -> None:
    field = random_ising(grid(4, 4), scale=0.5, seed=1)
    truth = Enumeration()(field).variables
    run = Gibbs(sweeps=400, burn_in=50, chains=32, thin=2).run(field, seed=0)
    inside = (run.marginals() - truth).abs() < run.standard_errors()
    assert 0.3 < float(inside.double().mean()) < 1.0
    with pytest.raises(InferenceError, match="level"):
        run.intervals(95)
