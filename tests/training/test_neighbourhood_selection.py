"""Group-lasso regressions: gradients, optimality, and edges that are known to be there."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import SettingsError
from mrflearn.features.observations import Samples
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.training.neighbourhood_selection import Lasso, select_edges


def some_problem(states: int = 3) -> tuple[Lasso, torch.Tensor]:
    generator = torch.Generator().manual_seed(states)
    rows = torch.randint(states, (40, 4), generator=generator)
    rows[:, 2] = rows[:, 0]
    weights = torch.rand(40, generator=generator).double() + 0.5
    problem = Lasso.of(Samples(rows, weights), states)
    point = problem.without_couplings()
    point[0] += 0.1
    point[1:] = with_others(torch.randn(point[1:].shape, generator=generator).double(), states)
    return problem, point


def with_others(couplings: torch.Tensor, states: int) -> torch.Tensor:
    """The couplings without those of a variable with itself."""
    own = torch.arange(len(couplings)) // states
    return couplings.masked_fill(own[:, None] == own, 0.0)


def test_gradients_by_finite_differences() -> None:
    problem, point = some_problem()
    gradient = problem.losses(point)[1]
    for couplings in (False, True):
        direction = torch.zeros_like(point)
        if couplings:
            direction[1:] = with_others(torch.randn_like(point[1:]), 3)
        else:
            direction[0] = torch.randn_like(point[0])
        moved = [
            float(problem.losses(point + e)[0].sum()) for e in (1e-5 * direction, -1e-5 * direction)
        ]
        expected = float((gradient * direction).sum())
        assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("states", [2, 3])
def test_the_solution_satisfies_the_optimality_conditions(states: int) -> None:
    problem, _ = some_problem(states)
    strength = 0.05
    found = problem.solve(problem.without_couplings(), strength, 20_000, 1e-12)
    gradient = problem.losses(found)[1]
    norms, steepness = (problem.pair_norms(part) for part in (found, gradient))
    assert float(gradient[0].abs().max()) < 1e-8
    active = norms > 0
    assert bool(active[0, 2])
    assert bool(active[2, 0])
    assert float(steepness[~active].max()) <= strength * (1 + 1e-9)
    # Where a table is kept, its gradient has the strength as norm, in the direction of the table.
    wide = norms.clamp_min(1e-300).repeat_interleave(states, 0).repeat_interleave(states, 1)
    pulled = gradient.clone()
    pulled[1:] += strength * found[1:] / wide
    assert float(problem.pair_norms(pulled)[active].max()) < 1e-7


def test_the_largest_strength_keeps_nothing_and_a_smaller_one_something() -> None:
    problem, _ = some_problem()
    start = problem.without_couplings()
    most = float(problem.pair_norms(problem.losses(start)[1]).max())
    assert not problem.solve(start, 1.0001 * most, 500, 1e-9)[1:].any()
    assert problem.solve(start, 0.99 * most, 500, 1e-9)[1:].any()


def test_edges_of_a_grid_are_found() -> None:
    graph = grid(3, 3)
    field = random_ising(graph, scale=1.0, seed=0)
    rows = JunctionTree().sample(field, 4000, torch.Generator().manual_seed(0))
    seen = Samples.distinct(rows)
    edges = select_edges(seen, torch.tensor([2] * seen.states.shape[1]), path=15).edges
    truth = {tuple(edge) for edge in graph.groups[1].scope.tolist()}
    found = {tuple(edge) for edge in edges.tolist()}
    assert len(found & truth) >= len(truth) - 2  # couplings near zero cannot be seen
    assert len(found - truth) <= 1


def test_independent_variables_are_not_joined() -> None:
    rows = torch.randint(2, (500, 5), generator=torch.Generator().manual_seed(1))
    edges = select_edges(Samples(rows), torch.tensor([2] * rows.shape[1]), gamma=1.0).edges
    assert edges.tolist() == []


@pytest.mark.parametrize("setting", [{"gamma": -1}, {"path": 1}, {"combine": "xor"}])
def test_settings_that_make_no_sense_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        select_edges(Samples(torch.zeros(2, 2)), torch.tensor([2, 2]), **setting)  # type: ignore[arg-type]
