"""Batches of local problems end where a plain optimiser of each one alone would."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mrflearn.graph.neighbourhood import LocalShape
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalFit, LocalTables
from mrflearn.training import newton as local
from mrflearn.training.newton import (
    LocalNewton,
    cholesky_with_ridge,
    complete,
)
from support.local_problems import SHAPES, features, plain_loss, random_counts


def likelihood(shape: LocalShape, counts: Tensor) -> AuxiliaryLikelihood:
    return AuxiliaryLikelihood.of(LocalTables(shape), counts)


def slope(shape: LocalShape, counts: Tensor, terms: Tensor, l2: float) -> Tensor:
    leaf = terms.clone().requires_grad_(True)
    value = plain_loss(shape, counts, leaf).sum() + l2 * leaf.square().sum()
    return torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("l2", [0.0, 0.7])
def test_the_gradient_vanishes_at_the_solution(name: str, l2: float) -> None:
    shape = SHAPES[name]
    counts = random_counts(shape, 40, seed=0) ** 3  # uneven: some problems take longer
    found = LocalNewton(l2=l2, tolerance=1e-9)(likelihood(shape, counts))
    assert bool(found.converged.all())
    assert float(slope(shape, counts, found.terms, l2).abs().max()) < 1e-6
    value = plain_loss(shape, counts, found.terms) + l2 * found.terms.square().sum(dim=0)
    assert_close(found.value, value)


def test_company_changes_nothing() -> None:
    shape = SHAPES["given"]
    counts = random_counts(shape, 9, seed=1) ** 4
    newton = LocalNewton(l2=0.1, tolerance=1e-10)
    together = newton(likelihood(shape, counts)).terms
    for q in range(9):
        alone = newton(likelihood(shape, counts[:, q : q + 1])).terms
        assert_close(together[:, q : q + 1], alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_a_short_step_needs_no_search(name: str) -> None:
    shape, short = SHAPES[name], 0
    newton = LocalNewton(l2=0.05)
    for seed in range(30):
        problems = likelihood(shape, random_counts(shape, 1, seed=seed) ** 3)
        generator = torch.Generator().manual_seed(seed)
        aside = torch.randn(problems.observed.shape, generator=generator, dtype=torch.float64)
        terms = newton(problems).terms + aside / aside.abs().sum()
        fit = problems.at(terms)
        moved, after, *_ = newton.step(problems, terms, fit)
        if float((moved - terms).abs().sum()) <= local.ALWAYS_LESS:
            short += 1
            before = float(fit.value + 0.05 * terms.square().sum())
            assert float(after.value + 0.05 * moved.square().sum()) < before
    assert short > 20


def test_large_problems_go_to_quasi_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES["joint"]
    problems = likelihood(shape, random_counts(shape, 5, seed=2))
    expected = LocalNewton(l2=0.1)(problems)
    monkeypatch.setattr(local, "MOST_NEWTON", 0)
    found = LocalNewton(l2=0.1)(problems)
    assert_close(found.terms, expected.terms, rtol=1e-4, atol=1e-5)
    assert_close(found.value, expected.value)


def test_a_state_never_seen_runs_away_but_ends() -> None:
    shape = LocalShape((2, 2), 2, ((0, 1), (0,), (1,)))
    counts = torch.tensor([[5.0], [3.0], [4.0], [0.0]], dtype=torch.float64)
    found = LocalNewton()(likelihood(shape, counts))
    assert float(found.terms[0]) < -20
    assert bool(found.terms.isfinite().all())
    penalised = LocalNewton(l2=0.1)(likelihood(shape, counts))
    assert -10 < float(penalised.terms[0]) < -1


def test_terms_that_say_the_same_share_the_weight() -> None:
    # Variable 1 always equals variable 2: only the sum of their couplings is in the data.
    shape = LocalShape((2, 2, 2), 1, ((0,), (0, 1), (0, 2)))
    counts = torch.zeros(8, 1, dtype=torch.float64)
    counts[[0, 3, 4, 7], 0] = torch.tensor([4.0, 1.0, 2.0, 6.0], dtype=torch.float64)
    found = LocalNewton()(likelihood(shape, counts))
    odds = torch.tensor(2.0 / 4).log(), torch.tensor(6.0 / 1).log()
    assert_close(found.terms[0, 0].float(), odds[0], atol=1e-4, rtol=0)
    assert_close(found.terms[1:, 0].sum().float(), odds[1] - odds[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["given", "joint", "potts given"])
def test_sparse_solutions_satisfy_their_conditions(name: str) -> None:
    shape, l1, l2 = SHAPES[name], 1.5, 0.05
    counts = random_counts(shape, 12, seed=3) ** 2
    found = LocalNewton(l2, l1, tolerance=1e-9)(likelihood(shape, counts))
    gradient = slope(shape, counts, found.terms, l2)
    zeros = 0
    priced = torch.zeros(len(shape.terms), dtype=torch.bool)
    for span, places in zip(shape.spans, shape.touching, strict=True):
        if len(places) < 2:
            continue
        priced[span] = True
        norm = found.terms[span].norm(dim=0)
        for q in range(12):
            if norm[q] == 0:
                zeros += 1
                assert float(gradient[span, q].norm()) <= l1 + 1e-4
            else:
                pull = l1 * found.terms[span, q] / norm[q]
                assert_close(gradient[span, q], -pull, atol=1e-4, rtol=0)
    assert zeros > 0
    assert float(gradient[~priced].abs().max()) < 1e-4


def seen_likelihood(shape: LocalShape, counts: Tensor, terms: Tensor, free: Tensor) -> Tensor:
    """Minus the log-likelihood of partial states under a joint field with a free context part."""
    scores = (features(shape) @ terms).reshape(-1, shape.contexts)
    log_given = scores - scores.logsumexp(dim=0)
    log_p = (log_given + free.log_softmax(dim=0)).reshape(shape.sizes)
    loss = torch.zeros((), dtype=torch.float64)
    partial = counts.reshape([n + 1 for n in shape.sizes])
    for state in partial.nonzero().tolist():
        where = tuple(
            slice(None) if s == n else slice(s, s + 1)
            for s, n in zip(state, shape.sizes, strict=True)
        )
        loss = loss - partial[tuple(state)] * log_p[where].reshape(-1).logsumexp(dim=0)
    return loss


@pytest.mark.parametrize("name", ["given", "joint", "potts given"])
def test_missing_values_are_summed_out(name: str) -> None:
    shape = SHAPES[name]
    sizes = [n + 1 for n in shape.sizes]
    generator = torch.Generator().manual_seed(4)
    cells = int(torch.tensor(sizes).prod())
    counts = 5 * torch.rand(cells, 1, generator=generator, dtype=torch.float64) ** 2
    found = LocalNewton(tolerance=1e-9).with_missing(LocalTables(shape), counts)
    free = torch.zeros(shape.contexts, dtype=torch.float64, requires_grad=True)
    terms = found.terms[:, 0].clone().requires_grad_(True)
    # The contexts' own distribution at the solution: what the completed counts say.
    expected = likelihood(shape, _completed(shape, counts, found.terms)).context[:, 0]
    free = expected.log().detach().requires_grad_(True)
    loss = seen_likelihood(shape, counts[:, 0], terms, free)
    gradients = torch.autograd.grad(loss, (terms, free))
    assert float(gradients[0].abs().max()) < 1e-4
    assert float(gradients[1].abs().max()) < 1e-4
    assert_close(found.value[0], loss.detach(), rtol=1e-8, atol=1e-6)


def _completed(shape: LocalShape, counts: Tensor, terms: Tensor) -> Tensor:
    """Counts of whole states at the fixed point of expectation and maximisation."""
    expected = (counts.sum(dim=0) / shape.cells).expand(shape.cells, -1)
    for _ in range(3000):
        completed = complete(shape, counts, expected)
        expected = likelihood(shape, completed).at(terms).expected
    return completed


def test_nothing_missing_is_the_ordinary_problem() -> None:
    shape = SHAPES["given"]
    counts = random_counts(shape, 3, seed=6)
    wide = torch.zeros(*[n + 1 for n in shape.sizes], 3, dtype=torch.float64)
    wide[tuple(slice(0, n) for n in shape.sizes)] = counts.reshape(*shape.sizes, 3)
    found = LocalNewton().with_missing(LocalTables(shape), wide.reshape(-1, 3))
    assert_close(found.terms, LocalNewton()(likelihood(shape, counts)).terms)


class Uphill(AuxiliaryLikelihood):
    """Problems of which the first grows wherever it is moved to from zero."""

    def at(self, terms: Tensor) -> LocalFit:
        fit = super().at(terms)
        away = (terms != 0).any(dim=0)
        away[1:] = False
        return replace(fit, value=fit.value + 1e3 * away)


@pytest.mark.parametrize("solver", [LocalNewton(l2=0.01), LocalNewton(0.01, 0.01)])
def test_a_problem_that_finds_no_better_point_stays_and_says_so(
    solver: LocalNewton,
) -> None:
    shape = SHAPES["given"]
    plain = likelihood(shape, random_counts(shape, 3, seed=4) ** 4)
    problems = Uphill(plain.tables, plain.context, plain.observed)
    found, expected = solver(problems), solver(plain)
    assert found.stuck.tolist() == [True, False, False]
    assert found.converged.tolist() == [False, True, True]
    assert not found.terms[:, 0].any()
    assert_close(found.terms[:, 1:], expected.terms[:, 1:])
    # Its value is that of the point which is given back.
    assert_close(found.value[0], plain.at(torch.zeros_like(found.terms)).value[0])


def test_a_matrix_without_a_factor_is_flagged() -> None:
    matrix = torch.eye(2, dtype=torch.float64).repeat(2, 1, 1)
    matrix[1, 0, 0] = torch.nan
    factor, failed = cholesky_with_ridge(matrix, torch.ones(2, dtype=torch.float64))
    assert failed.tolist() == [False, True]
    assert bool(factor[0].isfinite().all())


def test_a_problem_that_is_no_number_is_stuck_and_leaves_the_others_alone() -> None:
    shape = SHAPES["given"]
    counts = random_counts(shape, 3, seed=4)
    expected = LocalNewton(l2=0.1)(likelihood(shape, counts))
    counts[0, 1] = torch.nan
    found = LocalNewton(l2=0.1)(likelihood(shape, counts))
    assert found.stuck.tolist() == [False, True, False]
    assert_close(found.terms[:, ::2], expected.terms[:, ::2])
