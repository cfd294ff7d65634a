"""Independent variables: where the search for a large field begins, and coordinates that suit it.

Between two independent variables with covariances C_i, C_j of their states' indicators, the
coupling W_ij of the centred indicators has the curvature N C_i (x) C_j, whose eigenvectors and
eigenvalues are products of those of C_i and C_j.  Coordinates along these differ from each other
only by what couples the variables, however rare some of their states are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.base import Vector
from mrflearn.objectives.problem import Diagonal, Scaling

UNSEEN = 1e-3  # added to the share of every state, whose log may else be infinite
MOST_NUMBERS = 1 << 24  # of all tables of eigenvectors


def independent_field(graph: FactorGraph, data: Sequence[Tensor]) -> TabularModel:
    """The field of independent variables with these frequencies, where it has their tables."""
    values = list(TabularModel.zeros(graph).values)
    for place, (group, table) in enumerate(zip(graph.groups, data, strict=True)):
        if group.arity == 1 and len(group):
            scores = (table + UNSEEN).log().to(values[place])
            odds = scores[:, 1:] - scores[:, :1]
            total = torch.zeros_like(values[place]).index_add_(0, group.table, odds)
            values[place] = total / group.table.bincount(minlength=len(total)).unsqueeze(1)
    return TabularModel(graph, tuple(values))


def independent_coordinates(
    model: TabularModel, data: Sequence[Tensor], weight: float, ridge: float
) -> Scaling:
    """Coordinates in which the curvature at an `independent_field` is about one.

    `ridge`: a curvature of every parameter beside that of the data.
    """
    graph = model.graph
    variables = torch.arange(graph.variables)
    single = [group.scope[:, 0].cpu() for group in graph.groups if group.arity == 1]
    pairwise = (
        all(group.arity < 3 for group in graph.groups)
        and all(bool((own.table.cpu() == torch.arange(len(own))).all()) for own in graph.groups)
        and torch.equal(torch.cat([*single, variables[:0]]).sort().values, variables)
        and sum(map(len, graph.groups)) * graph.most_states**2 <= MOST_NUMBERS
    )
    if pairwise:
        return _centred(model, data, weight, ridge)
    return _deviations(model, data, weight, ridge)


def _deviations(
    model: TabularModel, data: Sequence[Tensor], weight: float, ridge: float
) -> Diagonal:
    """One over the standard deviation of each feature."""
    parts = []
    for value, group, table in zip(model.values, model.graph.groups, data, strict=True):
        free = table[(slice(None), *[slice(1, None)] * group.arity)]
        share = torch.zeros_like(value).index_add_(0, group.table, (free * (1 - free)).to(value))
        parts.append((weight * share + ridge).rsqrt().flatten())
    return Diagonal(torch.cat(parts))


@final
@dataclass(frozen=True, eq=False)
class CentredPairs:
    """Fields h_i = h'_i - sum_j W_ij p_j, and h' and W along eigenvectors, from an origin.

    `shares` are the p, of states above 0; of each group, `bases` are the eigenvectors of its
    variables' covariances and `sizes` one over the root of each coordinate's curvature.
    """

    graph: FactorGraph
    origin: Vector
    shares: Float[Tensor, "v s"]
    bases: tuple[tuple[Tensor, ...], ...]
    sizes: tuple[Tensor, ...]

    def around(self, origin: Vector) -> CentredPairs:
        """The same units, counted from another origin."""
        return replace(self, origin=origin)

    def natural(self, scaled: Vector) -> Vector:
        """The parameters w of scaled coordinates u."""
        parts = zip(self._parts(scaled), self.sizes, self.bases, strict=True)
        values = [_along(part * size, bases) for part, size, bases in parts]
        return self.origin + self._shifted(values, -1)

    def scaled(self, natural: Vector) -> Vector:
        """The scaled coordinates u of parameters w."""
        values = self._parts(self._shifted(self._parts(natural - self.origin), 1))
        parts = zip(values, self.sizes, self.bases, strict=True)
        return _flat(
            [_along(part, [own.mT for own in bases]) / size for part, size, bases in parts]
        )

    def pull_back(self, gradient: Vector) -> Vector:
        """The gradient by u of what has this gradient by w."""
        values, found = self._parts(gradient), []
        fields = torch.zeros_like(self.shares)
        for group, part in zip(self.graph.groups, values, strict=True):
            if group.arity == 1:
                fields[group.scope[:, 0], : part.shape[1]] = part
        for group, part, size, bases in zip(
            self.graph.groups, values, self.sizes, self.bases, strict=True
        ):
            if group.arity == 2:
                (one, two), (rows, columns) = group.scope.T, part.shape[1:]
                first, second = self.shares[one, :rows], self.shares[two, :columns]
                part = part - fields[one, :rows].unsqueeze(2) * second.unsqueeze(1)
                part = part - first.unsqueeze(2) * fields[two, :columns].unsqueeze(1)
            found.append(_along(part, [own.mT for own in bases]) * size)
        return _flat(found)

    def _parts(self, vector: Vector) -> list[Tensor]:
        """The tables of each group."""
        parts = vector.split([own.numel() for own in self.sizes])
        return [part.view_as(own) for part, own in zip(parts, self.sizes, strict=True)]

    def _shifted(self, values: Sequence[Tensor], sign: int) -> Vector:
        """All parameters; `sign` times what couplings give at the mean goes to the fields."""
        moved = torch.zeros_like(self.shares)
        for group, part in zip(self.graph.groups, values, strict=True):
            if group.arity == 2:
                (one, two), (rows, columns) = group.scope.T, part.shape[1:]
                first = torch.einsum("fab,fb->fa", part, self.shares[two, :columns])
                second = torch.einsum("fab,fa->fb", part, self.shares[one, :rows])
                moved[:, :rows].index_add_(0, one, first)
                moved[:, :columns].index_add_(0, two, second)
        pairs = zip(self.graph.groups, values, strict=True)
        return _flat(
            [
                part + sign * moved[group.scope[:, 0], : part.shape[1]]
                if group.arity == 1
                else part
                for group, part in pairs
            ]
        )


def _along(table: Tensor, bases: Sequence[Tensor]) -> Tensor:
    """Fields Q u, or couplings Q U Q'."""
    if len(bases) == 1:
        return torch.einsum("fab,fb->fa", bases[0], table)
    return bases[0] @ table @ bases[1].mT


def _flat(parts: Sequence[Tensor]) -> Vector:
    return torch.cat([own.reshape(-1) for own in parts])


def _centred(
    model: TabularModel, data: Sequence[Tensor], weight: float, ridge: float
) -> CentredPairs:
    """The coordinates of pairwise fields with a table for each variable and each pair."""
    graph = model.graph
    shares = model.values[0].new_zeros(graph.variables, graph.most_states - 1)
    for group, table in zip(graph.groups, data, strict=True):
        if group.arity == 1 and len(group):
            share = (table + UNSEEN).to(shares)
            share = share / share.sum(dim=1, keepdim=True)
            shares[group.scope[:, 0], : share.shape[1] - 1] = share[:, 1:]
    beyond = torch.arange(shares.shape[1], device=graph.device) >= (graph.states - 1).unsqueeze(1)
    # What is beyond a variable's states comes last.
    covariance = (shares + 2.0 * beyond).diag_embed() - shares.unsqueeze(2) * shares.unsqueeze(1)
    spread, vectors = torch.linalg.eigh(covariance)
    bases, sizes = [], []
    for group, own in zip(graph.groups, model.values, strict=True):
        axes = list(zip(group.scope.T, own.shape[1:], strict=True))
        bases.append(tuple(vectors[:, :free, :free][variables] for variables, free in axes))
        curvature = weight * spread[axes[0][0], : axes[0][1]]
        for variables, free in axes[1:]:
            curvature = curvature.unsqueeze(2) * spread[variables, :free].unsqueeze(1)
        sizes.append((curvature.clamp_min(0.0) + ridge).rsqrt())
    return CentredPairs(graph, _flat(model.values), shares, tuple(bases), tuple(sizes))
