"""Batched Newton for many small convex problems of one shape; L1 by proximal steps, gaps by EM.

    minimise  likelihood + l2 * sum w^2 + l1 * sum over cliques of two or more |their parameters|

Each problem has its own step length and leaves when it is done, so one slow problem costs the
others nothing.  Problems with too many parameters for a Hessian each go to L-BFGS, end to end.

L1 is on the norm of a clique's whole table (the group lasso; for two states it is |w|).  Newton's
method again [Lee, Sun and Saunders 2014]: parameters without L1 are eliminated from the
second-order model, and what is left, a few couplings, is minimised one table after the other.

A sample in which only some variables of a neighbourhood were seen counts with the probability of
what was seen, the rest summed out: expectation and maximisation, a Newton step at a time.  Right
when what is missing does not depend on its own value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.graph.neighbourhood import LocalShape
from mrflearn.objectives.base import Evaluation, Layout, Objective
from mrflearn.objectives.local_auxiliary import (
    AuxiliaryLikelihood,
    LocalFit,
    LocalTables,
    with_missing,
    without_missing,
)
from mrflearn.objectives.problem import Penalty
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise

MOST_NEWTON = 300  # parameters of one problem; above, its Hessian costs more than it saves
LONGEST_STEP = 4.0  # nats; longer steps come from directions the data say nothing about
HALVINGS = 30
MANY = 64  # problems for which a step that all of them share takes less time than one of each
# The value along a step of Newton's is at most value - c (1 - (e^s - 1 - s) / s^2), c > 0, where s
# is the sum of its moves: the curvature grows by e^s at most.  Up to s = 1.79 that is a descent.
ALWAYS_LESS = 1.5
SWEEPS = 500  # over the tables of a second-order model
KEPT = 1 << 23  # bytes of freed memory that stay with the process; see `raise_mmap_threshold`


@dataclass(frozen=True, eq=False)
class LocalSolution:
    """The parameters of q problems and how the search for them ended.

    A problem is `stuck` where no step made its value less though it had not converged, or its
    Hessian has no Cholesky factor: its terms are the best that were met.
    """

    terms: Float[Tensor, "p q"]
    value: Float[Tensor, " q"]
    iterations: int
    converged: Bool[Tensor, " q"]
    stuck: Bool[Tensor, " q"]
    precision: Float[Tensor, "p q"] | None = None  # of the parameters: inverse variances


class NewtonStep(NamedTuple):
    """Where a step of every problem has led; `done`: nothing more to gain; `stuck`: no way on."""

    terms: Float[Tensor, "p q"]
    fit: LocalFit
    done: Bool[Tensor, " q"]
    stuck: Bool[Tensor, " q"]


@dataclass(frozen=True)
class LocalNewton:
    """Minimises likelihood + l2 * sum of squares + l1 * norms of couplings for every problem.

    tolerance: a problem is done when one more step would move no parameter by more than this.
    """

    l2: float = 0.0
    l1: float = 0.0
    tolerance: float = 1e-7
    max_iterations: int = 100

    def __call__(self, problems: AuxiliaryLikelihood) -> LocalSolution:
        """The solution of every problem."""
        raise_mmap_threshold()
        if len(problems.observed) > MOST_NEWTON and not self._proximal(problems.shape):
            return self._quasi_newton(problems)
        return self._newton(problems)

    def _proximal(self, shape: LocalShape) -> bool:
        """Whether some table has an L1 penalty."""
        return self.l1 > 0 and bool(_couplings(shape))

    def _penalty(self, shape: LocalShape, terms: Float[Tensor, "p q"]) -> Float[Tensor, " q"]:
        value = self.l2 * terms.square().sum(dim=0)
        for span in _couplings(shape) if self.l1 else ():
            value = value + self.l1 * terms[span].norm(dim=0)
        return value

    def _start(self, problems: AuxiliaryLikelihood) -> Float[Tensor, "p q"]:
        """One step from zero, with the curvature of the average problem.

        At zero all joint states are equally probable, so problems of one shape differ only in how
        their contexts weigh them.  What is left open where a problem has many solutions (no
        penalty) must not depend on its company: such begin at zero.  So do a few problems, to
        which their own steps are cheaper.
        """
        zero = torch.zeros_like(problems.observed)
        unique = problems.shape.contexts == 1 or self.l2 > 0
        if not unique or zero.shape[1] < MANY or self._proximal(problems.shape):
            return zero
        means = (own.mean(dim=1, keepdim=True) for own in (problems.context, problems.observed))
        average = AuxiliaryLikelihood(problems.tables, *means)
        hessian = average.hessian(average.at(zero[:, :1]))
        hessian.diagonal(dim1=1, dim2=2).add_(2 * self.l2)
        inverse = torch.cholesky_inverse(cholesky_with_ridge(hessian, average.total)[0][0])
        gradient = problems.gradient(problems.at(zero))
        step = (-inverse @ gradient).nan_to_num(0.0, 0.0, 0.0)
        return step * (LONGEST_STEP / step.abs().amax(dim=0).clamp_min(LONGEST_STEP))

    def step(
        self, problems: AuxiliaryLikelihood, terms: Float[Tensor, "p q"], fit: LocalFit
    ) -> NewtonStep:
        """One damped Newton step of every problem; a problem that finds no better point stays."""
        if self._proximal(problems.shape):
            goal = self._model_minimum(problems, terms, fit)
            done = (goal - terms).abs().amax(dim=0) <= self.tolerance
            begin, level = (terms, fit), torch.zeros_like(fit.value)
            moved, trial, length = self._search(problems, begin, goal, level, level + 1)
            return NewtonStep(moved, trial, done, (length == 0) & ~done)
        gradient = problems.gradient(fit).add_(terms, alpha=2 * self.l2)
        hessian = problems.hessian(fit)
        hessian.diagonal(dim1=1, dim2=2).add_(2 * self.l2)
        factor, failed = cholesky_with_ridge(hessian, problems.total)
        direction = torch.cholesky_solve(gradient.T.unsqueeze(2), factor).squeeze(2).T.neg()
        failed = failed | ~direction.isfinite().all(dim=0)
        if bool(failed.any()):
            direction = direction.masked_fill(failed, 0.0)
        size = direction.abs()
        reach, spread = size.amax(dim=0), size.sum(dim=0)
        flat = gradient.abs().amax(dim=0) <= 1e-13 * problems.total
        # Along the step no score changes by more than its spread, nor the curvature by a larger
        # share: that share of this step is what the next one would be.
        done = reach * spread.clamp_max(1.0) <= self.tolerance
        if bool((spread <= ALWAYS_LESS).all()):
            moved = terms + direction
            return NewtonStep(moved, problems.at(moved), (done & ~failed) | flat, failed & ~flat)
        derivative = (direction * gradient).sum(dim=0)
        length = (LONGEST_STEP / reach.clamp_min(LONGEST_STEP)).to(terms.dtype)
        goal = terms + direction
        moved, trial, length = self._search(problems, (terms, fit), goal, derivative, length)
        stuck = (failed | (length == 0)) & ~flat
        return NewtonStep(moved, trial, (done & (length == 1) & ~failed) | flat, stuck)

    def _search(
        self,
        problems: AuxiliaryLikelihood,
        begin: tuple[Float[Tensor, "p q"], LocalFit],
        goal: Float[Tensor, "p q"],
        derivative: Float[Tensor, " q"],
        length: Float[Tensor, " q"],
    ) -> tuple[Float[Tensor, "p q"], LocalFit, Float[Tensor, " q"]]:
        """Steps of at most this length that make every value less: halved until they do.

        A step that none of its halves makes less has length 0.
        """
        terms, fit = begin
        value = fit.value + self._penalty(problems.shape, terms)
        # Below rounding, a comparison of values says nothing: allow for it.
        slack = 1e-13 * (value.abs() + problems.total)
        for _ in range(HALVINGS):
            # A whole step lands on exact zeros.
            moved = torch.where(length < 1, terms + length * (goal - terms), goal)
            trial = problems.at(moved)
            after = trial.value + self._penalty(problems.shape, moved)
            # Not a number is no better either.
            worse = ~(after <= value + 1e-4 * length * derivative + slack)
            if not bool(worse.any()):
                return moved, trial, length
            length = torch.where(worse, length / 2, length)
        moved = torch.where(worse, terms, moved)
        return moved, problems.at(moved), torch.where(worse, 0.0, length)

    def _newton(self, problems: AuxiliaryLikelihood) -> LocalSolution:
        terms, value = self._start(problems), torch.zeros_like(problems.total)
        converged = torch.zeros_like(value, dtype=torch.bool)
        stuck = torch.zeros_like(converged)
        left = torch.arange(len(value), device=value.device)
        current, fit = terms.clone(), problems.at(terms)
        iterations = 0
        while iterations < self.max_iterations:
            iterations += 1
            current, fit, done, lost = self.step(problems, current, fit)
            going = (~(done | lost)).nonzero().squeeze(1)
            if len(going) == len(left) and iterations < self.max_iterations:
                continue
            terms[:, left], value[left], converged[left] = current, fit.value, done
            stuck[left] = lost
            if not len(going):
                break
            left, current = left[going], current[:, going]
            problems, fit = problems.part(going), fit.part(going)
        value = value + self._penalty(problems.shape, terms)
        return LocalSolution(terms, value, iterations, converged, stuck)

    def _quasi_newton(self, problems: AuxiliaryLikelihood) -> LocalSolution:
        optimiser = LBFGS(max_iterations=self.max_iterations, tolerance=1e-12)
        outcome = minimise(_Joint(problems), optimiser, penalty=Penalty(l2=self.l2))
        terms = outcome.model.view(problems.observed.shape).clone()
        value = problems.at(terms).value + self._penalty(problems.shape, terms)
        converged = torch.full_like(value, outcome.converged, dtype=torch.bool)
        stuck = torch.full_like(value, outcome.failed, dtype=torch.bool)
        return LocalSolution(terms, value, outcome.iterations, converged, stuck)

    def with_missing(self, tables: LocalTables, counts: Float[Tensor, "z q"]) -> LocalSolution:
        """The solution from counts in which "not seen" is each variable's last state.

        A problem has converged where neither its terms nor what it expects to see move any more.
        The value is minus the log-likelihood of what was seen, as far as the auxiliary field says.
        """
        shape, total = tables.shape, counts.sum(dim=0)
        expected = (total / shape.cells).expand(shape.cells, -1)
        terms = counts.new_zeros(len(shape.terms), counts.shape[1])
        rounds, done = 0, torch.zeros_like(total, dtype=torch.bool)
        stuck = done
        while rounds < self.max_iterations and not bool((done | stuck).all()):
            rounds += 1
            problems = AuxiliaryLikelihood.of(tables, complete(shape, counts, expected))
            before = terms
            terms, fit, _, stuck = self.step(problems, terms, problems.at(terms))
            shift = (fit.expected - expected).abs().amax(dim=0) / total
            expected = fit.expected
            moved = (terms - before).abs().amax(dim=0)
            done = (moved <= self.tolerance) & (shift <= self.tolerance) & ~stuck
        seen = with_missing(expected, shape.sizes) / total
        loss = -torch.where(counts > 0, counts * seen.log(), 0.0).sum(dim=0)
        return LocalSolution(terms, loss + self._penalty(shape, terms), rounds, done, stuck)

    def _model_minimum(
        self, problems: AuxiliaryLikelihood, centre: Float[Tensor, "p q"], fit: LocalFit
    ) -> Float[Tensor, "p q"]:
        """Where the second-order model of the smooth part, plus L1, is least."""
        gradient = (problems.gradient(fit) + 2 * self.l2 * centre).T.unsqueeze(2)
        hessian = problems.hessian(fit)
        ridge = 2 * self.l2 + 1e-12 * problems.total.unsqueeze(1)
        hessian.diagonal(dim1=1, dim2=2).add_(ridge)
        spans = _couplings(problems.shape)
        coupled = torch.zeros(len(centre), dtype=torch.bool, device=centre.device)
        for span in spans:
            coupled[span] = True
        here, there = (own.nonzero().squeeze(1) for own in (coupled, ~coupled))
        across = hessian[:, here][:, :, there]
        right = torch.cat([across.transpose(1, 2), gradient[:, there]], dim=2)
        solved = torch.linalg.solve(hessian[:, there][:, :, there], right)
        curvature = hessian[:, here][:, :, here] - across @ solved[:, :, :-1]
        reduced = (gradient[:, here] - across @ solved[:, :, -1:]).squeeze(2)
        goal = centre.clone()
        goal[here] = self._in_turn(curvature, reduced, centre[here].T, spans).T
        shift = (goal - centre)[here].T.unsqueeze(2)
        goal[there] -= (solved[:, :, -1:] + solved[:, :, :-1] @ shift).squeeze(2).T
        return goal

    def _in_turn(
        self,
        curvature: Float[Tensor, "q k k"],
        gradient: Float[Tensor, "q k"],
        start: Float[Tensor, "q k"],
        spans: list[slice],
    ) -> Float[Tensor, "q k"]:
        """The minimum of a quadratic plus L1 of each table, by descent table by table."""
        ends = torch.tensor([0, *(span.stop - span.start for span in spans)]).cumsum(0).tolist()
        tables = [slice(a, b) for a, b in pairwise(ends)]
        steepest = [torch.linalg.eigvalsh(curvature[:, t, t])[:, -1:] for t in tables]
        here, gradient = start.clone(), gradient.clone()
        for _ in range(SWEEPS):
            before = here.clone()
            for table, top in zip(tables, steepest, strict=True):
                goal = here[:, table] - gradient[:, table] / top
                norm = goal.norm(dim=1, keepdim=True)
                moved = goal * shrinkage(norm, self.l1 / top) - here[:, table]
                here[:, table] += moved
                gradient += (curvature[:, :, table] @ moved.unsqueeze(2)).squeeze(2)
            if float((here - before).abs().max()) <= self.tolerance / 10:
                break
        return here


class _Joint(Objective[Tensor]):
    """The sum of local problems as one objective of all their terms."""

    def __init__(self, problems: AuxiliaryLikelihood) -> None:
        self.problems = problems

    @cached_property
    def layout(self) -> Layout:
        return Layout(("terms",), (self.problems.observed.shape,))

    @property
    def start(self) -> Float[Tensor, " p"]:
        return torch.zeros_like(self.problems.observed).view(-1)

    def at(self, vector: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return vector

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        found = self.problems.at(vector.view(self.problems.observed.shape))
        return Evaluation(found.value.sum(), self.problems.gradient(found).view(-1))


def cholesky_with_ridge(
    hessian: Float[Tensor, "q p p"], total: Float[Tensor, " q"]
) -> tuple[Float[Tensor, "q p p"], Bool[Tensor, " q"]]:
    """Its Cholesky factor, and where there is none.

    Where the data leave a direction flat, a ridge decides, which is added to the Hessian itself.
    """
    ridge = 1e-13 * total.clamp_min(1e-300)
    for _ in range(12):
        hessian.diagonal(dim1=1, dim2=2).add_(ridge.unsqueeze(1))
        found = torch.linalg.cholesky_ex(hessian)
        factor: Tensor = found.L
        failed: Tensor = found.info
        if not bool(failed.any()):
            break
        ridge = torch.where(failed > 0, ridge * 100, 0.0)
    return factor, failed > 0


def complete(
    shape: LocalShape, counts: Float[Tensor, "z q"], expected: Float[Tensor, "x q"]
) -> Float[Tensor, "x q"]:
    """Counts of whole joint states: each partial one shared out as the current field would."""
    seen = with_missing(expected, shape.sizes)
    ratio = torch.where(counts > 0, counts / seen, 0.0)
    return expected * without_missing(ratio, shape.sizes)


def shrinkage(norm: Tensor, threshold: Tensor | float) -> Tensor:
    """By which the proximal step of the group lasso multiplies tables of these norms."""
    return (1 - threshold / norm.clamp_min(1e-300)).clamp_min(0.0)


def _couplings(shape: LocalShape) -> list[slice]:
    """Where the parameters of cliques of two variables or more stand."""
    pairs = zip(shape.spans, shape.touching, strict=True)
    return [span for span, places in pairs if len(places) > 1 and span.stop > span.start]


def raise_mmap_threshold() -> None:
    """Has the C library keep what is freed from now on, up to twice `KEPT` bytes.

    By default glibc hands freed memory back to the system above some threshold, and asks for it
    again at the next table: every page is then cleared, which took a third of the time of small
    jobs.  The threshold follows the largest mapped block that was ever given back (mallopt(3),
    M_MMAP_THRESHOLD), so such a block is asked for and given back, its pages never touched.  With
    another C library nothing happens.
    """
    torch.empty(KEPT, dtype=torch.uint8)
