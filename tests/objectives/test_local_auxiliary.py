"""Value, gradient and Hessian of local problems equal those of a plain design matrix."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from mrflearn.graph import local_shape
from mrflearn.graph.local_shape import LocalShape
from mrflearn.objectives import local_auxiliary
from mrflearn.objectives import local_auxiliary as local_tables
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood
from support.local_problems import SHAPES, features, plain_loss, random_counts


def without_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has all shapes do as large ones do."""
    monkeypatch.setattr(local_tables, "design_matrix", lambda _: None)
    monkeypatch.setattr(local_tables, "pair_products", lambda _: None)
    anew = local_tables.local_tables.__wrapped__
    monkeypatch.setattr(local_auxiliary, "local_tables", anew)


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
    problems = AuxiliaryLikelihood.of(shape, counts)
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
    problems = AuxiliaryLikelihood.of(shape, random_counts(shape, 1, seed=3))
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
    problems = AuxiliaryLikelihood.of(shape, counts)
    fit = problems.at(torch.full_like(problems.observed, 0.3))
    assert_close(fit.expected.sum(dim=0), counts.sum(dim=0))
    given = fit.expected.reshape(-1, shape.contexts, 2).sum(dim=0)
    assert_close(given, counts.reshape(-1, shape.contexts, 2).sum(dim=0))
    one = problems.part(torch.tensor([1]))
    assert_close(one.at(torch.full_like(one.observed, 0.3)).value, fit.value[1:])


def test_scores_far_from_zero_stay_finite() -> None:
    shape = SHAPES["given"]
    problems = AuxiliaryLikelihood.of(shape, random_counts(shape, 1, seed=5))
    fit = problems.at(torch.full_like(problems.observed, 800.0))
    assert bool(fit.value.isfinite().all())
    assert bool(problems.gradient(fit).isfinite().all())


def test_absent_terms_have_no_slope_and_bend_nothing() -> None:
    for shape in SHAPES.values():
        counts = random_counts(shape, 2, seed=6)
        absent = torch.zeros(len(shape.terms), 2, dtype=torch.bool)
        absent[-1, 0] = True
        terms = torch.full_like(absent, 1, dtype=torch.float64).masked_fill_(absent, 0.0)
        masked, plain = (
            AuxiliaryLikelihood.of(shape, counts, absent),
            AuxiliaryLikelihood.of(shape, counts),
        )
        fit = masked.at(terms)
        assert_close(fit.value, plain.at(terms).value)
        assert_close(masked.gradient(fit), plain.gradient(fit).masked_fill(absent, 0.0))
        hessian = plain.hessian(fit)
        hessian[0, -1, :-1] = hessian[0, :-1, -1] = 0
        hessian[0, -1, -1] = counts[:, 0].sum()
        assert_close(masked.hessian(fit), hessian)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("by", ["matrices", "transforms"])
def test_at_zero_all_joint_states_are_alike(
    name: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "transforms":
        without_matrices(monkeypatch)
    shape = SHAPES[name]
    problems = AuxiliaryLikelihood.of(shape, random_counts(shape, 4, seed=7))
    found, known = problems.at_zero(), problems.at(torch.zeros_like(problems.observed))
    assert_close(found.value, known.value)
    assert_close(found.conditional, known.conditional)
    assert_close(found.expected, known.expected)
    assert_close(problems.gradient_at_zero(), problems.gradient(known))


def test_problems_with_the_same_terms_have_one_average() -> None:
    shape = SHAPES["given"]
    counts = random_counts(shape, 5, seed=8)
    absent = torch.zeros(len(shape.terms), 5, dtype=torch.bool)
    absent[-1, 2:4] = True
    shared, run = AuxiliaryLikelihood.of(shape, counts, absent).averages()
    assert run.tolist() == [0, 0, 1, 1, 2]
    assert_close(shared.absent, absent[:, [0, 2, 4]])
    context = counts.view(-1, shape.contexts, 5).sum(dim=0).mean(dim=1, keepdim=True)
    assert_close(shared.context, context.expand(-1, 3))
    shared, run = AuxiliaryLikelihood.of(shape, counts).averages()
    assert_close(shared.context, context)
    assert shared.absent is None
    assert run.tolist() == [0] * 5


def test_tables_made_without_gradients_serve_with_them() -> None:
    shape = LocalShape((2, 3), 1, ((0,), (0, 1)))  # no other test's, so that it is made here
    counts = random_counts(shape, 2, seed=9)
    with torch.inference_mode():
        AuxiliaryLikelihood.of(shape, counts)
    terms = torch.ones(len(shape.terms), 2, dtype=torch.float64, requires_grad=True)
    scores = AuxiliaryLikelihood.of(shape, counts).tables.scores(terms)
    (slope,) = torch.autograd.grad(scores.sum(), terms)
    assert_close(slope, features(shape).sum(dim=0).unsqueeze(1).expand(-1, 2))


def test_large_shapes_have_no_matrices() -> None:
    shape = LocalShape((4,) * 10, 1, tuple((0, k) for k in range(1, 10)))
    assert local_shape.design_matrix(shape) is None
    assert local_shape.pair_products(shape) is None
