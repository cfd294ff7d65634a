"""Standard errors and resampling of fields, beside refits one by one and numerical derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mrflearn import FieldStructure, MarkovField
from mrflearn.errors import DataWarning, MrflearnError
from mrflearn.evaluation import (
    bootstrap,
    case_dropping,
    centrality,
    compare_groups,
    predictability,
    standard_errors,
)
from mrflearn.evaluation.field_resampling import Refits
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.sampling import Drawing
from mrflearn.training.resampling import ResampledField

GRID = random_ising(grid(2, 3), seed=3, scale=0.5)
ROWS = Drawing()(GRID, 600, seed=0).samples.numpy()
MIXED = np.column_stack([ROWS[:, :2], ROWS[:, 2] + ROWS[:, 3], ROWS[:, 4]])


@pytest.mark.parametrize("rows", [ROWS, MIXED], ids=["two states", "mixed"])
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_resamples_fitted_together_equal_refits(rows: np.ndarray, l2: float) -> None:
    field = MarkovField(estimator="pl", l2=l2).fit(rows)
    counts = np.random.default_rng(0).multinomial(600, np.full(600, 1 / 600), size=3)
    found = Refits.of(field, rows)(counts)
    for own, weights in zip(found, counts, strict=True):
        again = MarkovField(estimator="pl", l2=l2).fit(rows, sample_weight=weights)
        np.testing.assert_allclose(own, again.strengths_, atol=1e-4)


@pytest.mark.parametrize("rows", [ROWS, MIXED], ids=["two states", "mixed"])
def test_derivatives_of_the_resampled_field(rows: np.ndarray) -> None:
    sizes = torch.as_tensor(rows.max(axis=0) + 1)
    edges = torch.triu_indices(rows.shape[1], rows.shape[1], 1).T
    own = ResampledField.of(torch.as_tensor(rows), sizes, edges, l2=0.3)
    generator = torch.Generator().manual_seed(0)
    vector = 0.3 * torch.randn(len(own.free), generator=generator, dtype=torch.float64) * own.free
    along = torch.randn(len(own.free), generator=generator, dtype=torch.float64) * own.free
    weights = torch.rand(1, len(rows), generator=generator, dtype=torch.float64)
    ends = [own.value((vector + h * along).unsqueeze(0), weights) for h in (1e-5, -1e-5)]
    _, gradient, expected = own.value(vector.unsqueeze(0), weights)
    slope = float(ends[0][0] - ends[1][0]) / 2e-5
    assert float(gradient[0] @ along) == pytest.approx(slope, rel=1e-6)
    turn = (ends[0][1] - ends[1][1])[0] / 2e-5
    np.testing.assert_allclose(
        own.curved(expected, along.unsqueeze(0), weights)[0], turn, atol=1e-4
    )
    np.testing.assert_allclose(own.curvature(vector, weights[0]) @ along, turn, atol=1e-4)
    scores = own.row_scores(vector) * weights.T
    np.testing.assert_allclose(scores.sum(dim=0) + 0.6 * vector, gradient[0], atol=1e-8)


@pytest.mark.parametrize("estimator", ["pl", "ml", "lap"])
def test_standard_errors_are_as_large_as_the_spread(estimator: str) -> None:
    """Over thirty data sets, the mean spread is known to some per cent."""
    estimates, errors = [], []
    for seed in range(30):
        rows = Drawing()(GRID, 500, seed=seed).samples.numpy()
        field = MarkovField("grid:2x3", estimator=estimator).fit(rows)
        estimates.append(field.strengths_)
        if seed < 4:
            errors.append(standard_errors(field, rows).errors)
    ratio = np.mean(errors) / np.std(estimates, axis=0, ddof=1).mean()
    assert 0.8 < ratio < 1.2  # the mean of 7 spreads of 30 each: an error of about 5 per cent


def test_intervals_say_when_they_do_not_cover() -> None:
    assert standard_errors(MarkovField("grid:2x3", estimator="pl").fit(ROWS), ROWS).remark == ""
    shrunk = MarkovField("grid:2x3", estimator="pl", l1=1.0).fit(ROWS)
    assert "l1" in standard_errors(shrunk, ROWS).remark
    assert "l1" in bootstrap(shrunk, ROWS, 3).remark
    learned = MarkovField("learn", estimator="pl").fit(ROWS)
    assert "selected" in bootstrap(learned, ROWS, 3).remark
    mixed = MarkovField(estimator="pl").fit(MIXED)
    found = standard_errors(mixed, MIXED)
    assert "norm" in found.remark
    assert set(found.table()) == {"variable", "and", "strength", "error", "low", "high"}
    with pytest.raises(MrflearnError, match="bootstrap"):
        standard_errors(MarkovField("grid:2x3", estimator="pw").fit(ROWS), ROWS)
    with pytest.raises(MrflearnError, match="level"):
        standard_errors(mixed, MIXED, level=95)


def test_a_bootstrap_of_a_fixed_and_of_a_learned_network() -> None:
    field = MarkovField("grid:2x3", estimator="pl").fit(ROWS)
    found = bootstrap(field, ROWS, 200, random_state=1)
    errors = standard_errors(field, ROWS).errors
    np.testing.assert_allclose(found.errors, errors, rtol=0.25)  # each of 200 draws: 5 per cent
    low, high = found.intervals().T
    assert ((low < found.estimates) & (found.estimates < high)).all()
    np.testing.assert_allclose(found.estimates, field.strengths_, atol=1e-4)
    apart = found.differences()
    assert (apart == apart.T).all()
    assert not apart.diagonal().any()
    assert found.differences(of="strengths").shape == (6, 6)
    same = bootstrap(field, ROWS, 200, random_state=1)
    np.testing.assert_array_equal(found.draws, same.draws)
    learned = MarkovField("learn", estimator="pl").fit(ROWS)
    chosen = bootstrap(learned, ROWS, 20)
    counts = np.random.default_rng(0).multinomial(600, np.full(600, 1 / 600), size=20)[0]
    again = FieldStructure().fit(ROWS, sample_weight=counts).edges_.tolist()
    drawn = chosen.edges[chosen.draws[0] != 0].tolist()
    both = [edge for edge in again if edge in drawn]
    assert len(both) >= max(len(again), len(drawn)) - 1  # strengths are those of all rows
    assert chosen.selected.max() == 1.0


def test_rows_with_gaps_stand_for_their_completions() -> None:
    holes = ROWS.astype(float)
    holes[np.random.default_rng(0).random(holes.shape) < 0.05] = np.nan
    field = MarkovField("grid:2x3", estimator="pl").fit(holes)
    with pytest.warns(DataWarning, match="missing"):
        found = bootstrap(field, holes, 50)
    np.testing.assert_allclose(found.estimates, field.strengths_, atol=1e-3)


def test_stability_of_subsets() -> None:
    field = MarkovField("grid:2x3", estimator="pl").fit(ROWS)
    found = case_dropping(field, ROWS, 30, shares=(0.9, 0.2))
    assert found.edges.shape == found.strengths.shape == (2, 30)
    assert found.edges[0].mean() > found.edges[1].mean()
    assert found.coefficient("edges") in (0.0, 0.1, 0.8)
    with pytest.raises(MrflearnError):
        case_dropping(field, ROWS, 1)


def test_groups_that_differ_and_groups_that_do_not() -> None:
    other = random_ising(grid(2, 3), seed=8, scale=0.5)
    field = MarkovField("grid:2x3", estimator="pl").fit(ROWS)
    same = Drawing()(GRID, 500, seed=5).samples.numpy()
    apart = Drawing()(other, 500, seed=5).samples.numpy()
    assert compare_groups(field, ROWS, apart, 99).p_structure == pytest.approx(0.01)
    found = compare_groups(field, ROWS, same, 99)
    assert found.p_structure > 0.01
    again = MarkovField("grid:2x3", estimator="pl")
    expected = again.fit(ROWS).strengths_ - again.fit(same).strengths_
    np.testing.assert_allclose(found.differences, expected, atol=1e-4)
    assert found.structure == pytest.approx(np.abs(expected).max(), abs=1e-4)


def test_predictability_and_centrality() -> None:
    field = MarkovField("grid:2x3").fit(ROWS)
    found = predictability(field, ROWS)
    most = np.maximum(ROWS.mean(axis=0), 1 - ROWS.mean(axis=0))
    np.testing.assert_allclose(found["baseline"], most)
    assert max(found["gain"]) > 0
    table = centrality(field)
    matrix = np.abs(field.strength_matrix_)
    np.testing.assert_allclose(table["strength"], matrix.sum(axis=0))
    np.testing.assert_allclose(table["expected_influence"], field.strength_matrix_.sum(axis=0))
