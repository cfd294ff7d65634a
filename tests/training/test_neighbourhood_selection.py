"""Group-lasso regressions: gradients, optimality, and edges that are known to be there."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import SettingsError
from mrflearn.features.observations import Samples
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.training.neighbourhood_selection import (
    Lasso,
    Regressions,
    pair_norms,
    select_edges,
)


def some_problem(states: int = 3) -> tuple[Lasso, Regressions]:
    generator = torch.Generator().manual_seed(states)
    rows = torch.randint(states, (40, 4), generator=generator)
    rows[:, 2] = rows[:, 0]
    weights = torch.rand(40, generator=generator).double() + 0.5
    problem = Lasso.of(Samples(rows, weights), states)
    start = problem.without_couplings()
    couplings = torch.randn(start.couplings.shape, generator=generator).double()
    for k in range(4):
        couplings[k, :, k] = 0
    return problem, Regressions(start.fields + 0.1, couplings)


def test_gradients_by_finite_differences() -> None:
    problem, point = some_problem()
    slope = problem.losses(point)[1]
    for name in ("fields", "couplings"):
        direction = torch.randn(getattr(point, name).shape, dtype=torch.float64)
        if name == "couplings":
            for k in range(4):
                direction[k, :, k] = 0
        moved = [
            float(problem.losses(point._replace(**{name: getattr(point, name) + e}))[0].sum())
            for e in (1e-5 * direction, -1e-5 * direction)
        ]
        expected = float((getattr(slope, name) * direction).sum())
        assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("states", [2, 3])
def test_the_solution_satisfies_the_optimality_conditions(states: int) -> None:
    problem, _ = some_problem(states)
    price = 0.05
    found = problem.solve(problem.without_couplings(), price, 20_000, 1e-12)
    slope = problem.losses(found)[1]
    norms, steepness = (pair_norms(part) for part in (found.couplings, slope.couplings))
    assert float(slope.fields.abs().max()) < 1e-8
    active = norms > 0
    assert bool(active[0, 2])
    assert bool(active[2, 0])
    assert float(steepness[~active].max()) <= price * (1 + 1e-9)
    # Where a table is kept, its slope is the price, in the direction of the table.
    pulled = slope.couplings + price * found.couplings / norms.clamp_min(1e-300)[:, None, :, None]
    assert float(pulled.square().sum(dim=(1, 3))[active].max()) < 1e-14


def test_the_highest_price_keeps_nothing_and_a_lower_one_something() -> None:
    problem, _ = some_problem()
    start = problem.without_couplings()
    most = float(pair_norms(problem.losses(start)[1].couplings).max())
    assert not problem.solve(start, 1.0001 * most, 500, 1e-9).couplings.any()
    assert problem.solve(start, 0.99 * most, 500, 1e-9).couplings.any()


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
