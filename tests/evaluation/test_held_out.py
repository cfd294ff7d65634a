from __future__ import annotations

import pytest
import torch

from mrflearn.errors import DataError
from mrflearn.evaluation.fields import held_out, moments_match
from mrflearn.graph.builders import complete, grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.objectives.pseudolikelihood import log_conditionals


def rows_of(field: Potentials, count: int = 400) -> torch.Tensor:
    return JunctionTree().sample(field, count, torch.Generator().manual_seed(0))


def test_figures_are_those_of_enumeration() -> None:
    field = random_ising(grid(3, 3), scale=1.0, seed=0)
    rows = rows_of(field)
    found = held_out(field, rows)
    values = field.score(rows).sum(-1) - Enumeration()(field).log_partition.sum()
    assert found.method == "exact"
    assert found.log_likelihood == pytest.approx(float(values.mean()))
    assert found.standard_error == pytest.approx(float(values.std()) / 20)
    assert found.pseudolikelihood == pytest.approx(
        float(log_conditionals(field, rows).sum(-1).mean())
    )


def test_wide_graphs_are_annealed_and_say_how_sure_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    field = random_ising(complete(6), scale=0.5, seed=1)
    rows = rows_of(field)
    exact = held_out(field, rows)
    monkeypatch.setattr(JunctionTree, "refuses", lambda self, graph: "too wide")
    annealed = held_out(field, rows, seed=1)
    assert annealed.method == "ais"
    assert 0 < annealed.partition_error < 0.2
    assert annealed.effective_chains is not None
    assert 16 < annealed.effective_chains <= 256
    assert annealed.reliable
    assert exact.effective_chains is None
    gap = abs(annealed.log_likelihood - exact.log_likelihood)
    assert gap < 6 * annealed.partition_error


def test_no_rows_are_refused() -> None:
    field = random_ising(grid(2, 2), scale=1.0, seed=0)
    with pytest.raises(DataError, match="no rows"):
        held_out(field, torch.zeros(0, 4, dtype=torch.int64))


def test_moments_of_a_fields_own_samples_match(monkeypatch: pytest.MonkeyPatch) -> None:
    field = random_ising(grid(3, 3), scale=1.0, seed=0)
    rows = rows_of(field, 4000)
    exact = moments_match(field, rows)
    assert exact.kind == "exact"
    assert exact.single.data.shape == (18,)
    assert exact.pairs.field.shape == (48,)
    assert exact.pairs.largest_error < 0.05
    assert exact.pairs.correlation > 0.99
    strange = moments_match(random_ising(grid(3, 3), scale=1.0, seed=5), rows)
    assert strange.pairs.largest_error > 0.2
    monkeypatch.setattr(JunctionTree, "refuses", lambda self, graph: "too wide")
    sampled = moments_match(field, rows, samples=1000)
    assert sampled.kind == "sampled"
    assert sampled.pairs.largest_error < 0.1
