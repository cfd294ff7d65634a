"""Group-lasso regressions: gradients, optimality, and edges that are known to be there."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import SettingsError
from mrflearn.features.observations import Samples
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.objectives.conditionals import state_codes
from mrflearn.training import neighbourhood_selection
from mrflearn.training.neighbourhood_selection import (
    NEVER,
    LassoPath,
    LassoPaths,
    Metric,
    select_edges,
)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that end at the optimum, to many digits."""
    for name, value in (("DTYPE", torch.float64), ("STILL", 1e-8), ("SLACK", 1e-15)):
        monkeypatch.setattr(neighbourhood_selection, name, value)
    monkeypatch.setattr(neighbourhood_selection, "MOST_STEPS", 5_000)


def some_path(
    sizes: tuple[int, ...],
    shares: list[float],
    known: torch.Tensor | None = None,
    targets: tuple[int, ...] = (0, 1, 2, 3),
) -> tuple[LassoPath, torch.Tensor]:
    samples = some_samples(sizes, len(shares))
    whole = samples, torch.tensor(sizes), torch.tensor(targets)
    path = LassoPath.of(*whole, shares, 0.25, len(sizes), known)
    return path, (samples.row_weights / samples.total).expand(len(shares), -1)


def some_samples(sizes: tuple[int, ...], seed: int) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.stack([torch.randint(size, (60,), generator=generator) for size in sizes], dim=1)
    rows[:40, 2] = rows[:40, 0].clamp_max(sizes[2] - 1)
    weights = torch.rand(60, generator=generator).double() + 0.5
    return Samples(rows, weights)


def with_others(path: LassoPath, point: torch.Tensor) -> torch.Tensor:
    """The point without couplings of a target with itself, or beyond its states."""
    real = path.rows.codes.abs().sum(dim=1).flatten() > 0
    kept = torch.where(path.rows.own, 0.0, 1.0) * real
    return torch.cat([point[:1] * real, point[1:] * kept.unsqueeze(1)])


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 4, 2)])
def test_derivatives_by_finite_differences(sizes: tuple[int, ...]) -> None:
    path, weights = some_path(sizes, [1.0, 0.5])
    rows = path.rows
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(
        2, 1 + len(rows.own), 2, rows.own.shape[1], generator=generator, dtype=torch.float64
    )
    point, along = with_others(path, draws[0]), with_others(path, draws[1])
    slope = rows.at(point, weights)
    ends = [rows.at(point + step * along, weights) for step in (1e-5, -1e-5)]
    numeric = (ends[0].losses - ends[1].losses).sum(dim=1) / 2e-5
    found = (slope.gradient * along).sum(dim=(0, 2))
    torch.testing.assert_close(found, numeric, rtol=1e-6, atol=1e-7)
    turn = (ends[0].gradient - ends[1].gradient) / 2e-5
    curved = rows.curved(slope.expected, along, weights)
    torch.testing.assert_close(curved, turn, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 3, 2)])
def test_solutions_satisfy_the_optimality_conditions(sizes: tuple[int, ...]) -> None:
    known = torch.ones(4, 4, dtype=torch.float64)
    known[0, 1] = known[1, 0] = 0.0
    known[0, 3] = known[3, 0] = NEVER
    path, weights = some_path(sizes, [1.0, 0.6, 0.3], known)
    point, _ = path._solve(weights, path.strengths, None)
    gradient = path.rows.at(point, weights).gradient
    norms, steepness = path._norms(point), path._norms(gradient)
    strength = path.strengths.view(1, -1, 1) * path.penalties.unsqueeze(1)
    assert float(gradient[0].abs().max()) < 1e-6
    active = norms > 0
    place = {variable: k for k, variable in enumerate(path.rows.predictors.tolist())}
    assert bool(active[place[0], :, 1].all())  # without a penalty
    assert not bool(active[place[0], :, 3].any())
    assert bool(active[place[2], 2, 0])
    assert bool((steepness <= strength + 1e-6).all())
    # Where a table is kept, its gradient is the strength times its direction.
    own = (strength / norms.clamp_min(1e-300))[:, None, :, :, None]
    begin = 0
    for slope, table in zip(*map(path.rows.tables, (gradient[1:], point[1:])), strict=True):
        some = slice(begin, begin + len(table))
        rest = (slope + own[some] * table).square().sum(dim=(1, 4)).sqrt()
        assert float(rest[active[some]].max()) < 1e-5
        begin = some.stop
    assert begin == 4


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 4, 2), (5, 2, 3, 5)])
def test_a_target_alone_is_as_among_all(sizes: tuple[int, ...]) -> None:
    shares = [0.8, 0.4, 0.15]
    whole, weights = some_path(sizes, shares)
    point, losses = whole._solve(weights, whole.strengths)
    norms = whole._norms(point)
    for target in range(4):
        path, _ = some_path(sizes, shares, targets=(target,))
        alone, loss = path._solve(weights, whole.strengths)
        torch.testing.assert_close(loss[:, 0], losses[:, target], rtol=0, atol=1e-6)
        assert bool((path.rows.predictors == whole.rows.predictors).all())
        torch.testing.assert_close(
            path._norms(alone)[..., 0], norms[..., target], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 4, 2), (5, 2, 3, 5)])
def test_all_variables_are_selected_as_by_one_search(sizes: tuple[int, ...]) -> None:
    shares = [0.9, 0.5, 0.25, 0.1]
    samples = some_samples(sizes, len(shares))
    path, _ = some_path(sizes, shares)
    many = torch.rand(3, 60, generator=torch.Generator().manual_seed(0)).double() + 0.2
    expected = torch.zeros(3, 4, 4, dtype=torch.bool)
    expected[:, path.rows.predictors] = path.selected(many)
    paths = LassoPaths.of(samples, torch.tensor(sizes), shares, 0.25)
    assert bool((paths.selected(many) == expected).all())
    assert bool(expected.any())
    known = torch.ones(4, 4)
    known[0, 2] = known[2, 0] = NEVER
    forbidden = LassoPaths.of(samples, torch.tensor(sizes), shares, 0.25, known).selected(many)
    assert not bool(forbidden[:, 0, 2].any())
    assert not bool(forbidden[:, 2, 0].any())
    assert bool(expected[:, 0, 2].any())


@pytest.mark.usefixtures("exact")
def test_the_largest_strength_keeps_nothing_and_a_smaller_one_something() -> None:
    path, weights = some_path((2, 3, 3, 2), [1.0001, 0.95])
    norms = path._norms(path._solve(weights, path.strengths, None)[0])
    assert not norms[:, 0].any()
    assert norms[:, 1].any()


def test_many_weightings_together_are_as_one_by_one() -> None:
    path, _ = some_path((2, 3, 3, 2), [1.0, 0.5, 0.25, 0.1])
    many = torch.rand(5, 60, generator=torch.Generator().manual_seed(0)).double() + 0.2
    together = path.selected(many)
    apart = torch.cat([path.selected(own.unsqueeze(0)) for own in many])
    assert bool((together == apart).all())


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 3, 2)])
def test_searches_from_another_solution_end_at_the_same_one(sizes: tuple[int, ...]) -> None:
    path, weights = some_path(sizes, [0.6, 0.3, 0.1])
    many = torch.rand(3, 60, generator=torch.Generator().manual_seed(1)).double() + 0.1
    many /= many.sum(dim=1, keepdim=True)
    cold, losses = path._solve(many, path.strengths)
    warm = path.warmed(weights[0])
    assert warm.warm is not None
    assert warm.warm.metric is not None
    strengths = warm.strengths
    point, found = warm._solve(many[: len(strengths)], strengths, *warm.warm)
    torch.testing.assert_close(point, cold[:, : len(strengths)], rtol=0, atol=1e-5)
    torch.testing.assert_close(found, losses[: len(strengths)], rtol=0, atol=1e-6)


@pytest.mark.usefixtures("exact")
def test_curvature_at_a_point_is_that_of_the_losses() -> None:
    path, weights = some_path((2, 2, 2, 2), [0.5])
    point, _ = path._solve(weights, path.strengths)
    expected = path.rows.at(point, weights).expected
    metric = Metric.at(path.rows, expected, weights)
    along = with_others(
        path, torch.randn(5, 1, 4, generator=torch.Generator().manual_seed(2)).double()
    )
    # Fields that follow the couplings to where the loss is least.
    along[0] = -torch.einsum("bvc,cbv->bv", metric.means, along[1:])
    curved = path.rows.curved(expected, along, weights)
    assert float(curved[0].abs().max()) < 1e-12
    form = torch.einsum("cbv,bvcd,dbv->bv", along[1:], metric.moments, along[1:])
    torch.testing.assert_close(form, (along * curved).sum(dim=0))


def test_codes_are_orthonormal_and_sum_to_zero() -> None:
    codes = state_codes(torch.tensor([2, 4, 3]), "contrasts")
    for own, size in zip(codes, (2, 4, 3), strict=True):
        real = own[:size, : size - 1]
        torch.testing.assert_close(real.T @ real, torch.eye(size - 1, dtype=torch.float64))
        torch.testing.assert_close(real.sum(dim=0), torch.zeros(size - 1, dtype=torch.float64))
        assert float(own.abs().sum()) == float(real.abs().sum())


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


@pytest.mark.parametrize("sizes", [(2, 1, 2, 3), (2, 2, 2, 3)])
def test_a_column_that_never_changes_has_no_neighbours(sizes: tuple[int, ...]) -> None:
    rows = torch.randint(2, (200, 4), generator=torch.Generator().manual_seed(2))
    rows[:, 1], rows[:, 3] = 0, rows[:, 0]
    gaps = rows.clone()
    gaps[::9, 2] = -1
    for seen in (rows, gaps):
        edges = select_edges(Samples.distinct(seen), torch.tensor(sizes)).edges
        assert edges.tolist() == [[0, 3]]


@pytest.mark.parametrize("setting", [{"gamma": -1}, {"path": 1}, {"combine": "xor"}])
def test_settings_that_make_no_sense_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        select_edges(Samples(torch.zeros(2, 2)), torch.tensor([2, 2]), **setting)  # type: ignore[arg-type]
