"""The likelihood of LAP's auxiliary models, with gradient and Hessian.

Made once a shape and device: a step of Newton's method on few problems takes a fraction of a
millisecond, of which looking these up again would be a good part.

    value     sum_y n(y) log Z(y; t) - <observed moments, t>
    gradient  expected moments - observed moments                               [paper, section 3]
    hessian   E[f_a f_b] - sum_y n(y) E[f_a | y] E[f_b | y]

where y are the contexts: the joint states of the variables that are given (one empty context for
a joint field, see `LocalShape.summed`).  Products of terms are terms again, so that the moments of
all products come from one transform of a table; small shapes use matrices where these are faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.graph.local_shape import LocalShape, design_matrix, pair_products
from mrflearn.kernels.reference_terms import moments, scores_of_terms

# What a shape of local problems says about sums over joint states, laid out on one device.


SHAPES_KEPT = 64


@dataclass(frozen=True, eq=False)
class LaidPair:
    """Two parts of terms, their join, and where both count (`graph.local_products`)."""

    first: int
    second: int
    both: int | None
    contexts: Float[Tensor, "r y"]


@dataclass(frozen=True, eq=False)
class LocalTables:
    """Scores of joint states from terms and back; and which products of terms are which.

    Small shapes have a `design` matrix (and its mean over the states of each context, `even`), and
    small conditional ones `pairs` with the `rows` of their products; the numbers of joins serve all
    others (see `LocalShape`).
    """

    shape: LocalShape
    index: Int[Tensor, " p"]
    joins: Int[Tensor, " p*p"]
    design: Float[Tensor, "x p"] | None
    even: Float[Tensor, "p y"] | None
    pairs: tuple[LaidPair, ...] | None
    rows: Int[Tensor, " p*p"] | None

    def scores(self, terms: Float[Tensor, "p q"]) -> Float[Tensor, "x q"]:
        """The score of every joint state."""
        if self.design is not None:
            return self.design @ terms
        table = terms.new_zeros(self.shape.cells, terms.shape[1])
        return scores_of_terms(table.index_add_(0, self.index, terms), self.shape.sizes)

    def moments(self, masses: Float[Tensor, "x q"]) -> Float[Tensor, "p q"]:
        """The mass of all joint states in which each term counts."""
        if self.design is not None:
            return self.design.T @ masses
        return moments(masses, self.shape.sizes)[self.index]

    def even_moments(self, context: Float[Tensor, "y q"]) -> Float[Tensor, "p q"]:
        """The same for contexts of these masses, all joint states alike within each."""
        states = self.shape.cells // self.shape.contexts
        if self.even is not None:
            return self.even @ context
        return self.moments((context / states).repeat(states, 1))


@lru_cache(maxsize=SHAPES_KEPT)
@torch.inference_mode(False)  # such tensors serve everywhere, also where gradients are followed
def local_tables(shape: LocalShape, device: torch.device) -> LocalTables:
    """The tables of a shape."""

    def laid(numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(numbers).to(device)

    design, even = design_matrix(shape), None
    if design is not None:
        even = design.reshape(-1, shape.contexts, design.shape[1]).mean(axis=0).T.copy()
    products = pair_products(shape) if shape.contexts > 1 else None
    pairs = rows = None
    if products is not None:
        rows = laid(products.rows)
        pairs = tuple(
            LaidPair(pair.first, pair.second, pair.both, laid(pair.contexts))
            for pair in products.pairs
        )
    return LocalTables(
        shape,
        laid(shape.index),
        laid(shape.joins.ravel()),
        None if design is None else laid(design),
        None if even is None else laid(even),
        pairs,
        rows,
    )


# Likelihoods of many small auxiliary fields of one shape, side by side [Mizrahi 2014, section
# 3].


@dataclass(frozen=True, eq=False)
class LocalFit:
    """What one set of parameters gives: minus the log-likelihood, and what it expects to see."""

    value: Float[Tensor, " q"]
    conditional: Float[Tensor, "x q"]  # the probability of a joint state given its context
    expected: Float[Tensor, "x q"]  # the same times the weight of the context

    def part(self, problems: Int[Tensor, " k"]) -> LocalFit:
        """Some of the problems."""
        return LocalFit(
            self.value.index_select(0, problems),
            self.conditional.index_select(1, problems),
            self.expected.index_select(1, problems),
        )


@dataclass(frozen=True, eq=False)
class AuxiliaryLikelihood:
    """Minus the log-likelihood of q local problems as a function of their p terms each.

    A term that is `absent` from a problem has no slope and bends nothing else: a search that
    begins at zero leaves it there.
    """

    shape: LocalShape
    context: Float[Tensor, "y q"]
    observed: Float[Tensor, "p q"]
    absent: Bool[Tensor, "p q"] | None = None

    @classmethod
    def of(
        cls,
        shape: LocalShape,
        counts: Float[Tensor, "x q"],
        absent: Bool[Tensor, "p q"] | None = None,
    ) -> AuxiliaryLikelihood:
        """From the counts of the joint states of each neighbourhood."""
        context = counts.view(-1, shape.contexts, counts.shape[1]).sum(dim=0)
        return cls(shape, context, local_tables(shape, counts.device).moments(counts), absent)

    @cached_property
    def tables(self) -> LocalTables:
        """What the shape says about sums over joint states."""
        return local_tables(self.shape, self.context.device)

    @cached_property
    def total(self) -> Float[Tensor, " q"]:
        """The weight of the samples of each problem."""
        return self.context.sum(dim=0)

    @cached_property
    def _present(self) -> Float[Tensor, "p p q"]:
        """1 where both terms are there."""
        assert self.absent is not None  # noqa: S101 - asked for only then
        present = (~self.absent).to(self.context)
        return present * present.unsqueeze(1)

    def part(self, problems: Int[Tensor, " k"]) -> AuxiliaryLikelihood:
        """Some of the problems."""
        absent = None if self.absent is None else self.absent.index_select(1, problems)
        context = self.context.index_select(1, problems)
        observed = self.observed.index_select(1, problems)
        return AuxiliaryLikelihood(self.shape, context, observed, absent)

    def averages(self) -> tuple[AuxiliaryLikelihood, Int[Tensor, " q"]]:
        """The average problem of each run with the same terms, and which of them each is in."""
        count, context = len(self.observed), self.context.mean(dim=1, keepdim=True)
        if self.absent is None:
            run = context.new_zeros(self.context.shape[1], dtype=torch.int64)
            return AuxiliaryLikelihood(self.shape, context, context.new_zeros(count, 1)), run
        begins = (self.absent[:, 1:] != self.absent[:, :-1]).any(dim=0)
        run = torch.nn.functional.pad(begins.cumsum(0), (1, 0))
        absent = self.absent[:, torch.nn.functional.pad(begins, (1, 0), value=True)]
        runs = absent.shape[1]
        context, observed = context.expand(-1, runs), context.new_zeros(count, runs)
        return AuxiliaryLikelihood(self.shape, context, observed, absent), run

    def at_zero(self) -> LocalFit:
        """The likelihood where all parameters are zero, and all joint states alike."""
        states = self.shape.cells // self.shape.contexts
        expected = (self.context / states).repeat(states, 1)
        conditional = torch.full_like(expected, 1 / states)
        return LocalFit(self.total * math.log(states), conditional, expected)

    def at(self, terms: Float[Tensor, "p q"]) -> LocalFit:
        """The likelihood at these parameters."""
        shape, problems = self.shape, terms.shape[1]
        scores = self.tables.scores(terms).view(-1, shape.contexts, problems)
        top = scores.amax(dim=0)
        weights = scores.sub_(top).exp_()
        sums = weights.sum(dim=0)
        log_z = sums.log().add_(top)
        value = (self.context * log_z).sum(dim=0) - (self.observed * terms).sum(dim=0)
        conditional = weights.div_(sums)
        expected = conditional * self.context
        return LocalFit(value, conditional.view(-1, problems), expected.view(-1, problems))

    def gradient(self, fit: LocalFit) -> Float[Tensor, "p q"]:
        """[Mizrahi 2014, section 3]  Zero where the moments of field and data agree."""
        return self._slope(self.tables.moments(fit.expected))

    def gradient_at_zero(self) -> Float[Tensor, "p q"]:
        """The gradient at `at_zero`, for less."""
        return self._slope(self.tables.even_moments(self.context))

    def _slope(self, expected: Float[Tensor, "p q"]) -> Float[Tensor, "p q"]:
        gradient = expected.sub_(self.observed)
        return gradient if self.absent is None else gradient.masked_fill_(self.absent, 0.0)

    def hessian(self, fit: LocalFit) -> Float[Tensor, "q p p"]:
        """The covariance of the terms, summed over contexts."""
        count = len(self.observed)
        conditional = self.shape.contexts > 1
        flat = self._given_contexts(fit) if conditional else self._jointly(fit)
        if self.absent is not None:
            square = flat.view(count, count, -1).mul_(self._present)
            square.diagonal().add_((self.absent * self.total).T)
        return flat.T.reshape(-1, count, count)

    def _jointly(self, fit: LocalFit) -> Float[Tensor, "p*p q"]:
        count = len(self.observed)
        together = _with_zero(moments(fit.expected, self.shape.sizes))
        apart = together.index_select(0, self.tables.index)
        flat = together.index_select(0, self.tables.joins)
        square = flat.view(count, count, -1)
        square.addcmul_(apart.unsqueeze(1) / self.total, apart, value=-1)
        return flat

    def _given_contexts(self, fit: LocalFit) -> Float[Tensor, "p*p q"]:
        shape, tables = self.shape, self.tables
        if tables.pairs is not None and tables.rows is not None:
            return self._covariances(fit, tables.pairs).index_select(0, tables.rows)
        flat = _with_zero(moments(fit.expected, shape.sizes)).index_select(0, tables.joins)
        where = torch.from_numpy(shape.context_joins.ravel()).to(flat.device)
        return flat.sub_(self._products(fit).index_select(0, where))

    def _covariances(self, fit: LocalFit, pairs: Sequence[LaidPair]) -> Float[Tensor, "r q"]:
        """sum_y n(y) Cov[f, g | y] for every two terms: their parts first, then the contexts."""
        shape, problems = self.shape, fit.expected.shape[1]
        wide = fit.conditional.view(-1, shape.contexts * problems)
        given = moments(wide, shape.sizes[: shape.summed]).view(-1, shape.contexts, problems)
        weighted = given * self.context
        means, masses, sums = given.unbind(), weighted.unbind(), []
        for pair in pairs:
            if pair.both is None:  # parts that exclude each other are never seen together
                covariance = (masses[pair.first] * means[pair.second]).neg_()
            else:
                apart = (masses[pair.first], means[pair.second])
                covariance = torch.addcmul(masses[pair.both], *apart, value=-1)
            sums.append(pair.contexts @ covariance)
        return torch.cat(sums)

    def _products(self, fit: LocalFit) -> Float[Tensor, "k*y+1 q"]:
        """sum_y n(y) E[f | y] E[g | y] over the contexts where both count, for all pairs."""
        shape, problems = self.shape, fit.expected.shape[1]
        wide = fit.conditional.view(-1, shape.contexts * problems)
        parts = torch.from_numpy(shape.summed_parts).to(wide.device)
        given = moments(wide, shape.sizes[: shape.summed])[parts]
        row, column = torch.triu_indices(len(given), len(given), device=given.device)
        pairs = given[row] * given[column]
        pairs = (pairs.view(len(row), shape.contexts, problems) * self.context).view(-1, problems)
        return _with_zero(moments(pairs, shape.sizes[shape.summed :], len(row)))


def _with_zero(table: Float[Tensor, "x q"]) -> Float[Tensor, "x+1 q"]:
    """The table and a row of zeros, which stands for terms that exclude each other."""
    return torch.cat([table, table.new_zeros(1, table.shape[1])])
