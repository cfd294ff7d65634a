"""Likelihoods of many small auxiliary fields of one shape, side by side [Mizrahi 2014, section 3].

    value     sum_y n(y) log Z(y; t) - <observed moments, t>
    gradient  expected moments - observed moments                               [paper, section 3]
    hessian   E[f_a f_b] - sum_y n(y) E[f_a | y] E[f_b | y]

where y are the contexts: the joint states of the variables that are given (one empty context for
a joint field, see `LocalShape.summed`).  Moments of all terms come from one transform of a table,
and products of terms are terms again, so that no design matrix is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.graph.local_shape import LocalShape
from mrflearn.kernels.reference_terms import moments, scores_of_terms


@dataclass(frozen=True, eq=False)
class LocalFit:
    """What one set of parameters gives: minus the log-likelihood, and what it expects to see."""

    value: Float[Tensor, "q"]
    conditional: Float[Tensor, "x q"]  # the probability of a joint state given its context
    expected: Float[Tensor, "x q"]  # the same times the weight of the context
    moments: Float[Tensor, "x q"]  # of what is expected


@dataclass(frozen=True, eq=False)
class LocalLikelihood:
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
    ) -> LocalLikelihood:
        """From the counts of the joint states of each neighbourhood."""
        context = counts.view(-1, shape.contexts, counts.shape[1]).sum(dim=0)
        index = torch.from_numpy(shape.index).to(counts.device)
        return cls(shape, context, moments(counts, shape.sizes)[index], absent)

    @property
    def total(self) -> Float[Tensor, "q"]:
        """The weight of the samples of each problem."""
        return self.context.sum(dim=0)

    @property
    def index(self) -> Int[Tensor, "p"]:
        return torch.from_numpy(self.shape.index).to(self.context.device)

    def part(self, problems: Int[Tensor, "k"]) -> LocalLikelihood:
        """Some of the problems."""
        absent = None if self.absent is None else self.absent[:, problems]
        context, observed = self.context[:, problems], self.observed[:, problems]
        return LocalLikelihood(self.shape, context, observed, absent)

    def at(self, terms: Float[Tensor, "p q"]) -> LocalFit:
        """The likelihood at these parameters."""
        shape, problems = self.shape, terms.shape[1]
        table = terms.new_zeros(shape.cells, problems).index_add_(0, self.index, terms)
        scores = scores_of_terms(table, shape.sizes).view(-1, shape.contexts, problems)
        top = scores.amax(dim=0)
        weights = scores.sub_(top).exp_()
        sums = weights.sum(dim=0)
        log_z = sums.log().add_(top)
        value = (self.context * log_z).sum(dim=0) - (self.observed * terms).sum(dim=0)
        conditional = weights.div_(sums)
        expected = (conditional * self.context).view(-1, problems)
        conditional = conditional.view(-1, problems)
        return LocalFit(value, conditional, expected, moments(expected, shape.sizes))

    def gradient(self, fit: LocalFit) -> Float[Tensor, "p q"]:
        """[Mizrahi 2014, section 3]  Zero where the moments of field and data agree."""
        gradient = fit.moments[self.index] - self.observed
        return gradient if self.absent is None else gradient.masked_fill_(self.absent, 0.0)

    def hessian(self, fit: LocalFit) -> Float[Tensor, "q p p"]:
        """The covariance of the terms, summed over contexts."""
        shape, device = self.shape, fit.expected.device
        count = len(shape.index)
        joins = torch.from_numpy(shape.joins.ravel()).to(device)
        together = _with_zero(fit.moments)
        second = together.index_select(0, joins)
        if shape.contexts == 1:
            apart = together[self.index]
            first = (apart / self.total).unsqueeze(1) * apart
            flat = second.sub_(first.view(count * count, -1))
        else:
            where = torch.from_numpy(shape.context_joins.ravel()).to(device)
            flat = second.sub_(self._products(fit).index_select(0, where))
        if self.absent is not None:
            square = flat.view(count, count, -1)
            square.masked_fill_(self.absent | self.absent.unsqueeze(1), 0.0)
            square.diagonal().add_((self.absent * self.total).T)
        return flat.T.reshape(-1, count, count)

    def _products(self, fit: LocalFit) -> Float[Tensor, "k*y+1 q"]:
        """sum_y n(y) E[f | y] E[g | y] over the contexts where both count, for all pairs."""
        shape, problems = self.shape, fit.expected.shape[1]
        parts = torch.from_numpy(shape.summed_parts).to(fit.expected.device)
        wide = fit.conditional.view(-1, shape.contexts * problems)
        given = moments(wide, shape.sizes[: shape.summed])[parts]
        row, column = torch.triu_indices(len(parts), len(parts), device=given.device)
        pairs = given[row] * given[column]
        pairs = (pairs.view(len(row), shape.contexts, problems) * self.context).view(-1, problems)
        return _with_zero(moments(pairs, shape.sizes[shape.summed :], len(row)))


def _with_zero(table: Float[Tensor, "x q"]) -> Float[Tensor, "x+1 q"]:
    """The table and a row of zeros, which stands for terms that exclude each other."""
    return torch.cat([table, table.new_zeros(1, table.shape[1])])
