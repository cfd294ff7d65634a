"""The likelihood of local problems, many of one shape side by side, with gradient and Hessian.

    value     sum_y n(y) log Z(y; t) - <observed moments, t>
    gradient  expected moments - observed moments                       [Mizrahi 2014, section 3]
    hessian   E[f_a f_b] - sum_y n(y) E[f_a | y] E[f_b | y]

where y are the contexts: the joint states of the variables that are given (one empty context for
a joint field, see `LocalShape.summed`).  Products of terms are terms again, so that the moments of
all products come from one transform of a table.  Transforms take fewer steps, and are all that a
large neighbourhood can afford; up to some thousand entries a matrix product is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def add_absent(block: Tensor) -> Tensor:
        block[:, 1:] += block[:, :1]
        return block

    return _along_axes(terms.clone(), sizes, add_absent)


def moments(masses: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The mass of all joint states in which each term counts."""

    def sum_states(block: Tensor) -> Tensor:
        for state in range(1, block.shape[1]):
            block[:, 0] += block[:, state]
        return block

    return _along_axes(masses.clone(), sizes, sum_states)


def with_missing(masses: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "z q"]:
    """Masses with one more state a variable, its last: "not seen", the sum of all its states."""
    return _along_axes(
        masses, sizes, lambda block: torch.cat([block, block.sum(dim=1, keepdim=True)], dim=1)
    )


def without_missing(masses: Float[Tensor, "z q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The adjoint of `with_missing`: what was not seen counts for every state."""
    wider = [size + 1 for size in sizes]
    return _along_axes(masses, wider, lambda block: block[:, :-1] + block[:, -1:])


def _along_axes(
    table: Float[Tensor, "x q"], sizes: Sequence[int], change: Callable[[Tensor], Tensor]
) -> Float[Tensor, "z q"]:
    """The table after a change along each variable in turn, its states on the middle axis."""
    problems, before, after = table.shape[1], 1, table.numel()
    for size in sizes:
        after //= size
        table = change(table.reshape(before, size, after))
        before *= table.shape[1]
    return table.reshape(-1, problems)


# What a shape of local problems says about sums over joint states.


LARGEST = 1 << 18  # entries of one matrix


class PairOfParts(NamedTuple):
    """Two parts that terms have in the clique, and the contexts of the terms that have them.

    Parts go by their number among the clique's joint states; `both` is that of their join, None
    where they exclude each other.  `joins` are those of the contexts of every two such terms, by
    number; `contexts` is 1 where both terms count, a row per two terms, or None where that is too
    much.
    """

    first: int
    second: int
    both: int | None
    joins: Int[Tensor, " r"]
    contexts: Float[Tensor, "r y"] | None


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
    def index(self) -> Int[Tensor, " p"]:
        """The number of every term among the joint states."""
        return self._tensor(self.shape.index)

    @cached_property
    def joins(self) -> Int[Tensor, " p*p"]:
        """The number of the join of every two terms (`LocalShape.joins`)."""
        return self._tensor(self.shape.joins.ravel())

    @cached_property
    def pairs(self) -> tuple[tuple[PairOfParts, ...], Int[Tensor, " p*p"]]:
        """All pairs of parts, and for every two terms their row among those of all pairs together.

        For a field that is conditional on its contexts.
        """
        shape, own, count = self.shape, self.shape.summed, len(self.shape.terms)
        small = count * count * shape.contexts <= 4 * LARGEST
        counts = _counting(shape.terms[:, own:], shape.sizes[own:]).T if small else None
        part = shape.index // shape.contexts
        numbers, begins = np.unique(part, return_index=True)
        members = [np.nonzero(part == number)[0] for number in numbers]
        strides = shape.strides[:own] // shape.contexts, shape.strides[own:]
        join, clash = join_terms(shape.terms[begins, :own], strides[0])
        context, never = join_terms(shape.terms[:, own:], strides[1])
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
            joins = np.where(never[one, other], shape.contexts, context[one, other])
            ones = None if counts is None else self._tensor(counts[one] * counts[other])
            pair = (int(numbers[i]), int(numbers[j]), together, self._tensor(joins), ones)
            pairs.append(PairOfParts(*pair))
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
        """sum_y n(y) Cov[f, g | y] for every two terms: their parts first, then the contexts."""
        shape, problems = self.shape, fit.expected.shape[1]
        wide = fit.conditional.view(-1, shape.contexts * problems)
        given = moments(wide, shape.sizes[: shape.summed]).view(-1, shape.contexts, problems)
        masses, means = (given * self.context).unbind(), given.unbind()
        pairs, rows = self.tables.pairs
        sums = []
        for first, second, both, joins, contexts in pairs:
            if both is None:  # parts that exclude each other are never seen together
                covariance = (masses[first] * means[second]).neg_()
            else:
                covariance = torch.addcmul(masses[both], masses[first], means[second], value=-1)
            if contexts is not None:
                sums.append(contexts @ covariance)
            else:
                table = _with_zero(moments(covariance, shape.sizes[shape.summed :]))
                sums.append(table.index_select(0, joins))
        return torch.cat(sums).index_select(0, rows)


def _with_zero(table: Float[Tensor, "x q"]) -> Float[Tensor, "x+1 q"]:
    """The table and a row of zeros, which stands for terms that exclude each other."""
    return torch.cat([table, table.new_zeros(1, table.shape[1])])
