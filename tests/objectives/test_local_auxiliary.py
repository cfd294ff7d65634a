"""Value, gradient and Hessian of local problems equal those of a plain design matrix."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from mrflearn.graph.neighbourhood import LocalShape
from mrflearn.objectives import local_auxiliary
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from support.local_problems import SHAPES, plain_loss, random_counts


def without_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has all shapes do as large ones do."""
    monkeypatch.setattr(local_auxiliary, "LARGEST", 0)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("by", ["matrices", "transforms"])
def test_value_gradient_and_hessian_equal_the_plain_ones(
    name: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "transforms":
        without_matrices(monkeypatch)
    shape = SHAPES[name]
    counts = random_counts(shape, 3, seed=1)
    generator = torch.Generator().manual_seed(2)
    terms = torch.randn(len(shape.terms), 3, generator=generator, dtype=torch.float64)
    problems = AuxiliaryLikelihood.of(LocalTables(shape), counts)
    fit = problems.at(terms)
    assert_close(fit.value, plain_loss(shape, counts, terms))
    assert_close(problems.total, counts.sum(dim=0))
    leaf = terms.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(plain_loss(shape, counts, leaf).sum(), leaf)
    assert_close(problems.gradient(fit), gradient)
    for q in range(3):
        hessian = torch.autograd.functional.hessian(
            lambda t, q=q: plain_loss(shape, counts[:, q : q + 1], t.unsqueeze(1)).sum(),
            terms[:, q],
        )
        assert_close(problems.hessian(fit)[q], hessian, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_by_differences(name: str) -> None:
    shape = SHAPES[name]
    problems = AuxiliaryLikelihood.of(LocalTables(shape), random_counts(shape, 1, seed=3))
    terms = torch.linspace(-1, 1, len(shape.terms), dtype=torch.float64).unsqueeze(1)
    gradient = problems.gradient(problems.at(terms))
    for p in range(len(terms)):
        step = torch.zeros_like(terms)
        step[p] = 1e-5
        slope = (problems.at(terms + step).value - problems.at(terms - step).value) / 2e-5
        assert_close(gradient[p], slope, rtol=1e-6, atol=1e-6)


def test_what_is_expected_sums_to_what_was_seen() -> None:
    shape = SHAPES["triple"]
    counts = random_counts(shape, 2, seed=4)
    problems = AuxiliaryLikelihood.of(LocalTables(shape), counts)
    fit = problems.at(torch.full_like(problems.observed, 0.3))
    assert_close(fit.expected.sum(dim=0), counts.sum(dim=0))
    given = fit.expected.reshape(-1, shape.contexts, 2).sum(dim=0)
    assert_close(given, counts.reshape(-1, shape.contexts, 2).sum(dim=0))
    one = problems.part(torch.tensor([1]))
    assert_close(one.at(torch.full_like(one.observed, 0.3)).value, fit.value[1:])


def test_scores_far_from_zero_stay_finite() -> None:
    shape = SHAPES["given"]
    problems = AuxiliaryLikelihood.of(LocalTables(shape), random_counts(shape, 1, seed=5))
    fit = problems.at(torch.full_like(problems.observed, 800.0))
    assert bool(fit.value.isfinite().all())
    assert bool(problems.gradient(fit).isfinite().all())


def test_large_shapes_have_no_matrices() -> None:
    shape = LocalShape((4,) * 10, 1, tuple((0, k) for k in range(1, 10)))
    assert LocalTables(shape).design is None
