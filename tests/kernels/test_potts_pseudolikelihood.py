"""The Potts kernel against one-hot matrices and against the general pseudolikelihood."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from mrflearn.features.observations import Samples
from mrflearn.graph.builders import grid, pairwise
from mrflearn.kernels import potts_pseudolikelihood as kernel
from mrflearn.kernels.potts_pseudolikelihood import CodedRows, potts_pseudolikelihood
from mrflearn.models.potts import PottsModel, gather_pairs, spread
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.pseudolikelihood import (
    CodedSamples,
    Pseudolikelihood,
    coded_samples,
    dense_pseudolikelihood,
    is_dense,
)

SHAPES = [(1, 2, 2), (7, 3, 2), (40, 5, 4), (13, 9, 21)]


def case(shape: tuple[int, int, int]) -> tuple[PottsModel, torch.Tensor, torch.Tensor]:
    """A random field, rows and weights: (rows, variables, states)."""
    count, variables, states = shape
    generator = torch.Generator().manual_seed(sum(shape))
    start = PottsModel.zeros(variables, states, dtype=torch.float64)
    drawn = {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in start.parameters().items()
    }
    rows = torch.randint(states, (count, variables), generator=generator)
    return start.with_parameters(drawn), rows, torch.rand(count, generator=generator).double()


@given(some.integers(1, 9), some.integers(1, 5), some.integers(2, 4), some.integers(0, 99))
def test_look_ups_are_products_with_one_hot_rows(n: int, v: int, s: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = CodedRows.of(torch.randint(s, (n, v), generator=generator), s)
    ones = rows.one_hot(torch.float64)
    assert ones.sum() == n * v
    right = torch.randn(v * s, 3, generator=generator, dtype=torch.float64)
    left = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(rows.times(right), ones @ right)
    torch.testing.assert_close(rows.transposed_times(left), ones.t() @ left)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columns", [1, 84, 10_000])
def test_value_and_gradients_are_those_of_the_general_pseudolikelihood(
    shape: tuple[int, int, int], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "CACHED_COLUMNS", columns)
    model, rows, weights = case(shape)
    leaves = {name: value.requires_grad_(True) for name, value in model.parameters().items()}
    model = model.with_parameters(leaves)
    slow = Pseudolikelihood()(model, Samples(rows, weights))
    fast = dense_pseudolikelihood(model, CodedSamples(CodedRows.of(rows, shape[2]), weights))
    torch.testing.assert_close(fast, slow)
    expected = torch.autograd.grad(slow, list(leaves.values()))
    slopes = torch.autograd.grad(fast, list(leaves.values()))
    for found, wanted in zip(slopes, expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_missing_values_have_no_term_and_say_nothing() -> None:
    """A missing value is a state whose couplings are zero, and whose term is left out."""
    model, rows, weights = case((9, 4, 3))
    rows[::2, 1] = rows[3, :2] = -1
    leaves = {name: value.requires_grad_(True) for name, value in model.parameters().items()}
    fields = model.with_parameters(leaves).full_fields()
    value = torch.zeros((), dtype=torch.float64)
    for row, weight in zip(rows.tolist(), weights, strict=True):
        for v, state in enumerate(row):
            scores = fields[v]
            for (i, j), table in zip(model.pairs.t().tolist(), leaves["couplings"], strict=True):
                if v in (i, j) and row[i] >= 0 and row[j] >= 0:
                    scores = scores + (table[:, row[j]] if v == i else table[row[i]])
            if state >= 0:
                value = value - weight * scores.log_softmax(0)[state]
    batch = CodedSamples(CodedRows.of(rows, 3), weights)
    fast = dense_pseudolikelihood(model.with_parameters(leaves), batch)
    torch.testing.assert_close(fast, value)
    slopes = [torch.autograd.grad(own, list(leaves.values())) for own in (fast, value)]
    for found, wanted in zip(*slopes, strict=True):
        torch.testing.assert_close(found, wanted)
    ones = batch.rows.one_hot(torch.float64)
    assert ones.sum() == (rows >= 0).sum()
    right = torch.randn(12, 2, dtype=torch.float64)
    torch.testing.assert_close(batch.rows.times(right), ones @ right)


def test_gradients_by_finite_differences() -> None:
    model, rows, weights = case((6, 3, 3))
    batch = CodedSamples(CodedRows.of(rows, 3), weights)

    def value(fields: torch.Tensor, couplings: torch.Tensor) -> torch.Tensor:
        return dense_pseudolikelihood(PottsModel(fields, couplings), batch)

    inputs = [p.requires_grad_(True) for p in model.parameters().values()]
    assert torch.autograd.gradcheck(value, inputs)


def test_huge_scores_give_finite_answers() -> None:
    model, rows, weights = case((7, 3, 2))
    found = potts_pseudolikelihood(
        1000 * model.full_fields().float(),
        1000 * spread(model.couplings, model.pairs, 3).float(),
        CodedRows.of(rows, 2),
        weights.float(),
    )
    assert all(bool(part.isfinite().all()) for part in found)


def test_spreading_is_undone_by_gathering_both_places() -> None:
    model, _, _ = case((1, 4, 3))
    whole = spread(model.couplings, model.pairs, 4)
    flat = whole.reshape(12, 12)
    torch.testing.assert_close(flat, flat.t())
    torch.testing.assert_close(gather_pairs(whole, model.pairs), 2 * model.couplings)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_finds_the_same() -> None:
    model, rows, weights = case((40, 5, 4))
    whole = spread(model.couplings, model.pairs, 5)
    here = potts_pseudolikelihood(model.full_fields(), whole, CodedRows.of(rows, 4), weights)
    there = potts_pseudolikelihood(
        model.full_fields().cuda(),
        whole.cuda(),
        CodedRows.of(rows.cuda(), 4),
        weights.cuda(),
    )
    torch.testing.assert_close(there[0].cpu(), here[0])
    torch.testing.assert_close(there[1].cpu(), here[1])
    torch.testing.assert_close(
        gather_pairs(there[2].cpu(), model.pairs), gather_pairs(here[2], model.pairs)
    )


@given(some.integers(0, 99))
def test_dense_graphs_of_any_edges_agree_with_the_general_objective(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    every = torch.triu_indices(6, 6, 1).t()
    edges = every[torch.randperm(15, generator=generator)[:9]].flip(1)
    graph = pairwise(torch.full((6,), 3), edges)
    assert is_dense(graph)
    zeros = TabularModel.zeros(graph)
    drawn = {
        name: torch.randn(value.shape, generator=generator).double().requires_grad_(True)
        for name, value in zeros.parameters().items()
    }
    model = zeros.with_parameters(drawn)
    samples = Samples.distinct(torch.randint(3, (20, 6), generator=generator))
    fast = dense_pseudolikelihood(model, coded_samples(samples, 3, 100)[0])
    slow = Pseudolikelihood()(model, samples)
    torch.testing.assert_close(fast, slow)
    slopes = (torch.autograd.grad(value, list(drawn.values())) for value in (fast, slow))
    for found, wanted in zip(*slopes, strict=True):
        torch.testing.assert_close(found, wanted)


def test_what_is_not_dense_or_not_plain_does_not_suit() -> None:
    two = torch.full((4,), 2)
    assert not is_dense(grid(4, 4))
    assert not is_dense(pairwise(two, torch.tensor([[0, 1], [1, 0]])))
    mixed = pairwise(torch.tensor([2, 2, 3]), torch.tensor([[0, 1], [0, 2], [1, 2]]))
    assert not is_dense(mixed)
