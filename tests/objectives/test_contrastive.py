"""Persistent contrastive divergence: frequencies, gradient, agreement with the likelihood."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mrflearn import MarkovField, PottsField
from mrflearn.errors import SettingsError
from mrflearn.graph.builders import complete, grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing
from mrflearn.kernels.potts_gibbs import PottsGibbs, joint_frequencies
from mrflearn.models.potts import PottsModel, spread
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.contrastive import (
    GibbsChains,
    PersistentContrast,
    connected_correlations,
    pearson,
)


def drawn(model: PottsModel, seed: int = 0, scale: float = 0.7) -> PottsModel:
    generator = torch.Generator().manual_seed(seed)
    pairs = model.parameters().items()
    values = {k: scale * torch.randn(v.shape, generator=generator).to(v) for k, v in pairs}
    return model.with_parameters(values)


def test_the_kernels_chains_have_the_fields_marginals() -> None:
    model = drawn(PottsModel.zeros(4, 3, dtype=torch.float64))
    exact = JunctionTree()(model.potentials())
    generator, chains = torch.Generator().manual_seed(1), torch.zeros(4000, 4, dtype=torch.int64)
    kernel = PottsGibbs(4000, model.full_fields())
    whole = spread(model.couplings, model.pairs, 4)
    chains = kernel(model.full_fields(), whole, chains, 30, generator)
    found = joint_frequencies(chains, 3).permute(0, 2, 1, 3)[tuple(model.pairs)]
    # Independent chains: five standard errors of a share.
    error = (exact.factors[1] * (1 - exact.factors[1]) / 4000).sqrt()
    assert bool(((found - exact.factors[1]).abs() < 5 * error + 1e-9).all())


@pytest.mark.parametrize("dense", [True, False])
def test_frequencies_are_weighted_counts(dense: bool) -> None:
    graph = complete(4, 3) if dense else grid(4, 5)
    moves, generator = GibbsChains(graph), torch.Generator().manual_seed(0)
    assert moves.dense == dense
    rows = torch.randint(graph.most_states, (9, graph.variables), generator=generator)
    weights = torch.rand(9, generator=generator).double()
    for group, table in zip(graph.groups, moves.frequencies(rows, weights), strict=True):
        for scope, own in zip(group.scope.tolist(), table, strict=True):
            expected = torch.zeros_like(own, dtype=torch.float64)
            for row, weight in zip(rows, weights, strict=True):
                expected[tuple(row[scope].tolist())] += float(weight) / float(weights.sum())
            torch.testing.assert_close(own.double(), expected, atol=1e-6, rtol=1e-5)


def test_missing_values_count_for_no_pair() -> None:
    rows = torch.tensor([[0, 1], [-1, 1], [1, 0]])
    found = joint_frequencies(rows, 2)[0, :, 1]
    torch.testing.assert_close(found, torch.tensor([[0, 1 / 3], [1 / 3, 0]]))


def test_connected_correlations_of_independent_variables_vanish() -> None:
    shares = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    pair = (shares[0].unsqueeze(1) * shares[1]).unsqueeze(0)
    assert float(connected_correlations([shares, pair]).abs().max()) < 1e-12
    one = torch.tensor([1.0, 2.0, 4.0, -1.0])
    other = torch.tensor([0.5, 2.5, 3.0, 1.0])
    expected = np.corrcoef(one.numpy(), other.numpy())[0, 1]
    assert float(pearson(one, other)) == pytest.approx(expected)
    assert float(pearson(one, torch.zeros(4))) == 0


def test_the_gradient_is_that_of_the_likelihood_up_to_the_chains_noise() -> None:
    graph = complete(4, 3)
    model = TabularModel.zeros(graph)
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(3, (500, 4), generator=generator)
    objective = PersistentContrast(model, GibbsChains(graph).frequencies(rows), 10_000, sweeps=6)
    vector = 0.5 * torch.randn(len(objective.start), generator=generator).double()
    found = objective(vector)
    again = objective(vector)
    assert torch.equal(found.gradient, again.gradient)
    assert float(found.value) == float(again.value)
    potentials = objective.at(vector).potentials()
    exact, data = JunctionTree()(potentials), objective.data
    parts = [
        (belief - own.double())[(slice(None), *[slice(1, None)] * (own.ndim - 1))].flatten()
        for belief, own in zip(exact.factors, data, strict=True)
    ]
    # Shares of 10,000 chains have standard errors of at most 0.005; five times that.
    torch.testing.assert_close(found.gradient, torch.cat(parts), atol=0.025, rtol=0)
    objective.commit()
    assert not torch.equal(objective(vector).gradient, found.gradient)


@pytest.mark.parametrize("graph", ["grid:2x3", "complete"])
def test_estimates_are_those_of_maximum_likelihood(graph: str) -> None:
    """Within half of the standard error of the samples themselves, over seeds."""
    built = grid(2, 3) if graph != "complete" else complete(4, 2)
    ratios = []
    for seed in range(2):
        rows = Drawing()(random_ising(built, seed=seed), 1500, seed=seed).samples.numpy()
        exact = MarkovField(graph, estimator="ml", l2=0.5).fit(rows)
        ours = MarkovField(graph, estimator="pcd", l2=0.5, max_iterations=150, random_state=seed)
        ours.fit(rows)
        # The standard error of a coupling of two spins is at least 1 / sqrt(samples).
        ratios.append((ours.couplings_ - exact.couplings_) * np.sqrt(1500))
    assert np.sqrt(np.square(np.concatenate(ratios)).mean()) < 0.5


def test_marginals_alone_are_enough() -> None:
    rows = Drawing()(random_ising(grid(2, 3), seed=1), 2000, seed=1).samples
    counts = [own * 2000 for own in GibbsChains(grid(2, 3)).frequencies(rows)]
    settings = {"graph": "grid:2x3", "l2": 0.1}
    exact = MarkovField(estimator="ml", **settings).fit_counts(counts)
    ours = MarkovField(estimator="pcd", max_iterations=250, **settings).fit_counts(counts)
    np.testing.assert_allclose(ours.couplings_, exact.couplings_, atol=0.12)


def test_families_are_learned_until_their_correlations_are_there(tmp_path: Path) -> None:
    model, generator = drawn(PottsModel.zeros(6, 4), scale=0.8), torch.Generator().manual_seed(5)
    chains = torch.zeros(1500, 6, dtype=torch.int64)
    whole = spread(model.couplings, model.pairs, 6)
    rows = PottsGibbs(1500, model.full_fields())(model.full_fields(), whole, chains, 50, generator)
    settings = {"estimator": "pcd", "identity": None, "chains": 400, "states": 4, "sweeps": 2}
    field = PottsField(**settings).fit(rows.numpy())
    assert field.outcome_.converged
    outcome = field.outcome_
    assert outcome.value == outcome.history[-1].value < 0.05
    # What is handed out is what was judged, not what a step more has made of it.
    judged = PottsField(**settings, max_iterations=outcome.iterations - 1).fit(rows.numpy())
    assert torch.equal(field.model_.couplings, judged.model_.couplings)
    moves = GibbsChains(field.potentials_.graph)
    new = torch.as_tensor(field.sample(1500, random_state=1))
    tables = [connected_correlations(moves.frequencies(own)) for own in (rows, new)]
    assert float(pearson(*tables)) > 0.9
    few = {**settings, "max_iterations": 5}
    once, same, other = (PottsField(**few, random_state=k).fit(rows.numpy()) for k in (0, 0, 1))
    assert torch.equal(once.model_.couplings, same.model_.couplings)
    assert not torch.equal(once.model_.couplings, other.model_.couplings)


def test_wrong_settings_are_told() -> None:
    rows = np.array([[0, 1], [1, 0], [1, 1]])
    with pytest.raises(SettingsError, match="correlation"):
        PottsField(estimator="pcd", correlation=1.5).fit(rows)
    with pytest.raises(SettingsError, match="l1"):
        MarkovField(estimator="pcd", l1=1.0).fit(rows)
    with pytest.raises(SettingsError, match="'pl', 'pcd'"):
        PottsField(estimator="ml").fit(rows)  # type: ignore[arg-type]
