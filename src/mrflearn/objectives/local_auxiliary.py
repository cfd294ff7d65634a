"""The likelihood of local problems, many of one shape side by side, with gradient and Hessian.

    value     sum_y n(y) log Z(y; t) - <observed moments, t>
    gradient  expected moments - observed moments                       [Mizrahi 2014, section 3]
    hessian   E[f_a f_b] - sum_y n(y) E[f_a | y] E[f_b | y]

where y are the contexts: the joint states of the variables that are given (one empty context for
a joint field, see `LocalShape.summed`).  Products of terms are terms again, so that the moments of
all products come from one transform of a table.  Transforms take fewer
steps, and are all that a large neighbourhood can afford; up to some thousand entries a matrix
product is several times faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.graph.neighbourhood import LocalShape, join_terms

# Between terms in the reference gauge, scores of joint states, and moments.
#
# A table over n variables is held as (x, q): x joint states, the last variable changing fastest,
# and q problems side by side.  In the reference gauge a field is a sum of *terms*: the term at
# index a counts in the joint state x if every variable has a_i = x_i or a_i = 0, so that 0 reads
# "absent".  The *moment* at index a is, with the same reading, the mass of all states that agree
# with a where a is not 0.  The two maps are each other's adjoints, and take n passes instead of
# x^2 steps:
#
#     scores = Z terms        moments = Z' masses        E[f_a f_b] = moment at the join of a, b


def scores_of_terms(terms: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The score of every joint state: all terms that count there, summed."""
    scores = terms.clone()
    for block in _axes(scores, sizes):
        block[:, 1:] += block[:, :1]
    return scores


def moments(
    masses: Float[Tensor, "k*x q"], sizes: Sequence[int], tables: int = 1
) -> Float[Tensor, "k*x q"]:
    """The mass of all joint states in which each term counts, for k tables end to end."""
    summed = masses.clone()
    for block in _axes(summed, sizes, tables):
        for state in range(1, block.shape[1]):
            block[:, 0] += block[:, state]
    return summed


def with_missing(masses: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "z q"]:
    """Masses with one more state a variable, its last: "not seen", the sum of all its states."""
    problems = masses.shape[-1]
    before, after = 1, len(masses)
    for size in sizes:
        after //= size
        block = masses.reshape(before, size, after * problems)
        masses = torch.cat([block, block.sum(dim=1, keepdim=True)], dim=1)
        before *= size + 1
    return masses.reshape(-1, problems)


def without_missing(masses: Float[Tensor, "z q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The adjoint of `with_missing`: what was not seen counts for every state."""
    problems = masses.shape[-1]
    before, after = 1, len(masses)
    for size in sizes:
        after //= size + 1
        block = masses.reshape(before, size + 1, after * problems)
        masses = block[:, :-1] + block[:, -1:]
        before *= size
    return masses.reshape(-1, problems)


def _axes(
    table: Float[Tensor, "k*x q"], sizes: Sequence[int], tables: int = 1
) -> Iterator[Float[Tensor, "b s r"]]:
    """Views of the tables, one a variable, with that variable's states on the middle axis."""
    before = tables
    for size in sizes:
        yield table.view(before, size, len(table) // (before * size) * table.shape[1])
        before *= size


# What a shape of local problems says about sums over joint states.


LARGEST = 1 << 18  # entries of one matrix


class PairOfParts(NamedTuple):
    """Two parts that terms have in the clique, and the contexts of the terms that have them.

    Parts go by their number among the clique's joint states; `both` is that of their join, None
    where they exclude each other.  `contexts` is 1 where both terms count, a row per two terms.
    """

    first: int
    second: int
    both: int | None
    contexts: Float[Tensor, "r y"]


@dataclass(frozen=True, eq=False)
class LocalTables:
    """Scores of joint states from terms and back, and which products of terms are which.

    Each table is made when it is first needed and kept: of many problems of one shape, whoever
    solves them keeps one such object.
    """

    shape: LocalShape
    device: torch.device | str = "cpu"

    @cached_property
    def design(self) -> Float[Tensor, "x p"] | None:
        """1 where a term counts in a joint state; None where that would be too large."""
        shape = self.shape
        if shape.cells * len(shape.terms) > LARGEST:
            return None
        return self._tensor(_counting(shape.terms, shape.sizes))

    @cached_property
    def mean_design(self) -> Float[Tensor, "p y"] | None:
        """The mean of `design` over the states of each context."""
        if self.design is None:
            return None
        contexts = self.shape.contexts
        return self.design.view(-1, contexts, self.design.shape[1]).mean(dim=0).T.contiguous()

    @cached_property
    def index(self) -> Int[Tensor, " p"]:
        """The number of every term among the joint states."""
        return self._tensor(self.shape.index)

    @cached_property
    def joins(self) -> Int[Tensor, " p*p"]:
        """The number of the join of every two terms (`LocalShape.joins`)."""
        return self._tensor(self.shape.joins.ravel())

    @cached_property
    def context_joins(self) -> Int[Tensor, " p*p"]:
        """For every two terms: pair of summed parts times `contexts` plus join of the contexts.

        Pairs (i <= j) of `summed_parts` are numbered row by row; one past the last number of all
        where the contexts exclude each other.
        """
        shape, count = self.shape, len(self.shape.summed_parts)
        part = np.searchsorted(shape.summed_parts, shape.index // shape.contexts)
        low, high = np.minimum.outer(part, part), np.maximum.outer(part, part)
        pair = low * count - low * (low - 1) // 2 + high - low
        number, clash = join_terms(shape.terms[:, shape.summed :], shape.strides[shape.summed :])
        none = count * (count + 1) // 2 * shape.contexts
        return self._tensor(np.where(clash, none, pair * shape.contexts + number).ravel())

    @cached_property
    def pairs(self) -> tuple[tuple[PairOfParts, ...], Int[Tensor, " p*p"]] | None:
        """All pairs of parts, and for every two terms their row among those of all pairs together.

        For a field that is conditional on its contexts; None where that would be too large.
        """
        shape, count = self.shape, len(self.shape.terms)
        if count * count * shape.contexts > 2 * LARGEST:
            return None
        own = shape.summed
        counts = _counting(shape.terms[:, own:], shape.sizes[own:]).T
        part, numbers = shape.index // shape.contexts, shape.summed_parts.tolist()
        members = [np.nonzero(part == number)[0] for number in numbers]
        states = shape.terms[[terms[0] for terms in members], :own]
        join, clash = join_terms(states, shape.strides[:own] // shape.contexts)
        rows = np.zeros((count, count), dtype=np.int64)
        pairs, begin = [], 0
        for i, j in combinations_with_replacement(range(len(members)), 2):
            one = np.repeat(members[i], len(members[j]))
            other = np.tile(members[j], len(members[i]))
            if i == j:
                one, other = one[one <= other], other[one <= other]
            rows[one, other] = rows[other, one] = begin + np.arange(len(one))
            begin += len(one)
            together = None if clash[i, j] else int(join[i, j])
            contexts = self._tensor(counts[one] * counts[other])
            pairs.append(PairOfParts(numbers[i], numbers[j], together, contexts))
        return tuple(pairs), self._tensor(rows.ravel())

    def _tensor(self, numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(numbers).to(self.device)

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

    def uniform_moments(self, context: Float[Tensor, "y q"]) -> Float[Tensor, "p q"]:
        """The same for contexts of these masses, all joint states equally probable within each."""
        if self.mean_design is not None:
            return self.mean_design @ context
        states = self.shape.cells // self.shape.contexts
        return self.moments((context / states).repeat(states, 1))


def _counting(terms: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """1 where a term (column) counts in a joint state (row): it is absent there or agrees."""
    states = np.indices(sizes).reshape(len(sizes), -1)
    counts: NDArray[Any] = np.ones((states.shape[1], len(terms)), dtype=bool)
    for place in range(len(sizes)):
        term = terms[None, :, place]
        counts &= (term == 0) | (term == states[place][:, None])
    return counts.astype(np.float64)


# Likelihoods of many small auxiliary fields of one shape, side by side.


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
    """Minus the log-likelihood of q local problems as a function of their p terms each."""

    tables: LocalTables
    context: Float[Tensor, "y q"]
    observed: Float[Tensor, "p q"]

    @classmethod
    def of(cls, tables: LocalTables, counts: Float[Tensor, "x q"]) -> AuxiliaryLikelihood:
        """From the counts of the joint states of each neighbourhood."""
        context = counts.view(-1, tables.shape.contexts, counts.shape[1]).sum(dim=0)
        return cls(tables, context, tables.moments(counts))

    @property
    def shape(self) -> LocalShape:
        """What the problems have in common."""
        return self.tables.shape

    @cached_property
    def total(self) -> Float[Tensor, " q"]:
        """The weight of the samples of each problem."""
        return self.context.sum(dim=0)

    def part(self, problems: Int[Tensor, " k"]) -> AuxiliaryLikelihood:
        """Some of the problems."""
        context = self.context.index_select(1, problems)
        return AuxiliaryLikelihood(self.tables, context, self.observed.index_select(1, problems))

    def average(self) -> AuxiliaryLikelihood:
        """One problem: the mean of all."""
        means = (table.mean(dim=1, keepdim=True) for table in (self.context, self.observed))
        return AuxiliaryLikelihood(self.tables, *means)

    def at_zero(self) -> LocalFit:
        """The likelihood where all parameters are zero, and all joint states equally probable."""
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
        return self.tables.moments(fit.expected).sub_(self.observed)

    def gradient_at_zero(self) -> Float[Tensor, "p q"]:
        """The gradient at `at_zero`, for less."""
        return self.tables.uniform_moments(self.context).sub_(self.observed)

    def hessian(self, fit: LocalFit) -> Float[Tensor, "q p p"]:
        """The covariance of the terms, summed over contexts."""
        count = len(self.observed)
        flat = self._given_contexts(fit) if self.shape.contexts > 1 else self._jointly(fit)
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
        if tables.pairs is not None:
            pairs, rows = tables.pairs
            return self._covariances(fit, pairs).index_select(0, rows)
        flat = _with_zero(moments(fit.expected, shape.sizes)).index_select(0, tables.joins)
        return flat.sub_(self._products(fit).index_select(0, tables.context_joins))

    def _covariances(self, fit: LocalFit, pairs: Sequence[PairOfParts]) -> Float[Tensor, "r q"]:
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
