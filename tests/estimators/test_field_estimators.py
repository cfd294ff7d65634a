"""Every estimator of MarkovField, on samples, counts, missing values and real recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mrflearn import MarkovField
from mrflearn.errors import GraphError, MrflearnError
from mrflearn.graph.builders import cube, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.gauges import random_ising, reference_gauge
from mrflearn.inference.sampling import Drawing
from mrflearn.io.samples import read_samples
from support.brute_force import all_assignments, all_probabilities
from support.fields import random_field

CONSISTENT = [
    {"estimator": "lap"},
    {"estimator": "lap", "auxiliary": "dense"},
    {"estimator": "pl"},
    {"estimator": "ml"},
    {"estimator": "consensus"},
]


def values(model: MarkovField) -> np.ndarray:
    return torch.cat([v.reshape(-1) for v in model.model_.values]).numpy()


@pytest.mark.parametrize("settings", CONSISTENT, ids=str)
def test_infinite_data_give_the_field_back(settings: dict[str, str]) -> None:
    scopes = ((0,), (1,), (2,), (3,), (1, 0), (1, 2), (0, 3), (0, 1, 2), (0, 2))
    field = reference_gauge(random_field(3, states=(2, 3, 2, 2), scopes=scopes))
    rows, weights = all_assignments(field).numpy(), all_probabilities(field).numpy()
    model = MarkovField(field.graph, tolerance=1e-10, **settings)
    model.fit(rows, sample_weight=weights)
    for found, known in zip(model.potentials_.tables, field.tables, strict=True):
        np.testing.assert_allclose(found.dense(), known.dense(), atol=1e-5)


def test_estimators_agree_as_the_paper_says() -> None:
    # [Mizrahi 2014, section 4]  At 10^4 samples LAP is as close to ML as pseudolikelihood is.
    field = random_ising(grid(4, 4), seed=2)
    rows = Drawing()(field, 10_000, seed=3).samples.numpy().astype(np.uint8)
    best = values(MarkovField("grid:4x4", estimator="ml").fit(rows))
    errors = {
        name: np.linalg.norm(values(MarkovField("grid:4x4", **settings).fit(rows)) - best)
        for name, settings in {
            "exact": {"estimator": "lap"},
            "dense": {"estimator": "lap", "auxiliary": "dense"},
            "pairwise": {"estimator": "lap", "auxiliary": "pairwise"},
            "pl": {"estimator": "pl"},
        }.items()
    }
    assert max(errors.values()) < 0.05 * np.linalg.norm(best)
    assert max(errors.values()) < 1.5 * min(errors.values())


def test_exact_likelihood_takes_few_evaluations() -> None:
    field = random_ising(cube(3, 3, 2), seed=0)
    rows = Drawing()(field, 5_000, seed=1).samples.numpy()
    model = MarkovField("cube:3x3x2", estimator="ml").fit(rows)
    assert model.outcome_.converged
    assert model.outcome_.evaluations < 30


def test_counts_of_cliques_are_all_that_likelihood_needs() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 2, (300, 4))
    unary = np.stack([np.bincount(rows[:, v], minlength=2) for v in range(4)])
    edges = grid(2, 2).groups[1].scope.numpy()
    pairs = np.stack(
        [np.bincount(2 * rows[:, a] + rows[:, b], minlength=4).reshape(2, 2) for a, b in edges]
    )
    for estimator in ("ml", "bp", "pw"):
        one = MarkovField("grid:2x2", estimator=estimator, l2=0.1, tolerance=1e-9).fit(rows)
        two = MarkovField("grid:2x2", estimator=estimator, l2=0.1, tolerance=1e-9)
        two.fit_counts([unary, pairs])
        np.testing.assert_allclose(values(one), values(two), atol=1e-4)
    with pytest.raises(MrflearnError, match="counts of whole neighbourhoods"):
        MarkovField("grid:2x2", estimator="lap").fit_counts([unary, pairs])
    with pytest.raises(GraphError, match="this graph needs"):
        MarkovField("grid:2x2", estimator="ml").fit_counts([unary, pairs[:2]])


def test_loopy_likelihood_is_exact_on_a_tree() -> None:
    rows = Drawing()(random_ising(grid(1, 5), seed=1), 400, seed=1).samples.numpy()
    exact = MarkovField("grid:1x5", estimator="ml", l2=0.1, tolerance=1e-9).fit(rows)
    loopy = MarkovField("grid:1x5", estimator="bp", l2=0.1, tolerance=1e-9).fit(rows)
    np.testing.assert_allclose(values(exact), values(loopy), atol=1e-4)


@pytest.mark.parametrize("estimator", ["lap", "pl", "ml"])
def test_a_high_price_leaves_no_coupling(estimator: str) -> None:
    rows = Drawing()(random_ising(grid(2, 3), seed=1), 200, seed=1).samples.numpy()
    dear = MarkovField("grid:2x3", estimator=estimator, l1=1e4).fit(rows)
    assert not dear.couplings_.any()
    odds = np.log(rows.mean(axis=0) / (1 - rows.mean(axis=0)))
    np.testing.assert_allclose(2 * dear.fields_, odds, atol=1e-3)
    some = MarkovField("grid:2x3", estimator=estimator, l1=3.0, l2=0.01).fit(rows)
    assert np.abs(some.couplings_).sum() > 0


def test_missing_values_by_lap_and_by_likelihood() -> None:
    rows = Drawing()(random_ising(grid(2, 2), seed=1), 3_000, seed=1).samples.numpy()
    whole = MarkovField("grid:2x2", estimator="lap").fit(rows)
    holes = rows.astype(float)
    holes[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    model = MarkovField("grid:2x2", estimator="lap").fit(holes)
    assert 0 < np.abs(values(model) - values(whole)).max() < 0.3
    exact = MarkovField("grid:2x2", estimator="ml").fit(holes)
    assert 0 < np.abs(values(exact) - values(model)).max() < 0.1
    shrunk = MarkovField("grid:2x2", estimator="lap", l1=1e4).fit(holes)
    assert not shrunk.couplings_.any()


def test_bytes_are_enough_and_many_states_are_fine() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    one = MarkovField("grid:2x2", estimator="lap").fit(rows)
    two = MarkovField("grid:2x2", estimator="lap").fit(rows.astype(np.uint8))
    np.testing.assert_array_equal(values(one), values(two))
    wide = np.random.default_rng(0).integers(0, 20, (500, 2))
    model = MarkovField("complete", estimator="lap", l2=0.1).fit(wide)
    assert model.couplings_.shape == (1, 20, 20)


def test_settings_are_checked_before_anything_is_done() -> None:
    rows = np.zeros((3, 4), dtype=int)
    for settings, says in (
        ({"auxiliary": "sparse"}, "not one of exact, dense, pairwise"),
        ({"l2": -1.0}, "must be >= 0"),
        ({"estimator": "pw", "l1": 1.0}, "takes no l1"),
    ):
        with pytest.raises(MrflearnError, match=says):
            MarkovField("grid:2x2", **settings).fit(rows)  # type: ignore[arg-type]
    lone = FactorGraph(torch.tensor([2, 2]), (FactorGroup("one", torch.tensor([[0]])),))
    half = MarkovField(lone, estimator="lap").fit(np.array([[0, 1], [1, 0], [1, 1]]))
    np.testing.assert_allclose(values(half), [np.log(2)], atol=1e-6)


@pytest.mark.data
def test_spikes_by_lap_and_by_exact_likelihood(data_folder: Path) -> None:
    rows = read_samples(data_folder / "inverse-ising" / "spikes15.txt").values.astype(np.uint8)
    train, held_out = rows[:30_000], rows[30_000:]
    exact = MarkovField("complete", estimator="ml", l2=0.1).fit(train).score(held_out)
    local = MarkovField("complete", estimator="lap", l2=0.1).fit(train).score(held_out)
    assert exact == pytest.approx(-4.53, abs=0.01)
    assert local == pytest.approx(exact, rel=0.01)


@pytest.mark.data
def test_votes_with_missing_ones(data_folder: Path) -> None:
    table = read_samples(
        data_folder / "inverse-ising" / "rehnquist-court-1994-2004.csv", columns=list(range(9))
    )
    assert (table.values == -1).any()
    model = MarkovField("complete", estimator="lap", l2=0.5).fit(table.values)
    seen = table.values[(table.values >= 0).all(axis=1)]
    whole = MarkovField("complete", estimator="lap", l2=0.5).fit(seen)
    assert model.score(seen) == pytest.approx(whole.score(seen), abs=0.02)
    names = list(table.names or ())
    strongest = model.edges_[np.argmax(model.couplings_)]
    assert {names[v] for v in strongest} == {"Scalia", "Thomas"}
