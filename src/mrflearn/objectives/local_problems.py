"""Local problems of an estimator: which variables are free, which factors count.

Every estimator that needs no inference is a sum of log p(free variables | the others) over small
problems, and differs from the rest only in which variables are free and which factors count:

| estimator | free | factors |
|---|---|---|
| pl | one variable | all around it [Sutton and McCallum 2009, eq. 5] |
| edge-pl | the variables of a factor | all around them [eq. 42] |
| pw | the variables of a factor | that factor [eq. 8] |
| pwpl | one variable of a factor | that factor [eq. 36, 37] |

With `with_ends`, the piece of a factor of several variables takes the factors of its single
variables with it (pieces may overlap: section 3.1).

Letters in shapes: n: problems; k: free variables of each; m: members; a: arity of a factor.

Letters in shapes: f: factors of one group; p: all weights of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.features import UNKNOWN
from mrflearn.features.index import attributes_of, cells_of
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import split_nodes
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField

# Which local problems an estimator solves: variables left free, and the factors that score them.


Local = Literal["pl", "edge-pl", "pw", "pwpl"]
Pairs = tuple[Int64[Tensor, " m"], Int64[Tensor, " m"]]


@dataclass(frozen=True, eq=False)
class ProblemPart:
    """The same part played by factors of one group in problems, in the order of the problems.

    `free` are the axes of the factor that are free, `covers` the axes of the problem they are.
    """

    group: int
    free: tuple[int, ...]
    covers: tuple[int, ...]
    problem: Int64[Tensor, " m"]
    factor: Int64[Tensor, " m"]


@dataclass(frozen=True, eq=False)
class Problems:
    """Problems of one shape: their free variables, how often each counts, who takes part."""

    scope: Int64[Tensor, "n k"]
    weight: Float[Tensor, " n"]
    parts: tuple[ProblemPart, ...]

    def __len__(self) -> int:
        return len(self.scope)

    def some(self, wanted: Bool[Tensor, " n"]) -> Problems:
        """Those that are wanted, numbered anew."""
        number = wanted.cumsum(0) - 1
        parts = []
        for part in self.parts:
            kept = wanted[part.problem]
            if bool(kept.any()):
                problem = number[part.problem[kept]]
                parts.append(replace(part, problem=problem, factor=part.factor[kept]))
        return Problems(self.scope[wanted], self.weight[wanted], tuple(parts))


def find_problems(batch: FieldBatch, kind: Local, *, with_ends: bool = False) -> list[Problems]:
    """All problems of an estimator, one record a shape of factor."""
    makers = {"pl": _variables, "edge-pl": _scopes, "pw": _pieces, "pwpl": _piece_variables}
    found = makers[kind](batch.graph, with_ends)
    return [_with_parts(batch, scope, pairs) for scope, pairs in found if len(scope)]


Members = dict[int, Pairs]  # group -> (problem, factor)


def _variables(graph: FactorGraph, _: bool) -> Iterator[tuple[Tensor, Members]]:
    everyone = torch.ones(graph.variables, dtype=torch.bool)
    yield from _alone(graph, everyone)


def _alone(graph: FactorGraph, chosen: Bool[Tensor, " v"]) -> Iterator[tuple[Tensor, Members]]:
    """Each chosen variable with all the factors around it, by number of states."""
    for states in graph.states[chosen].unique().tolist():
        scope = (chosen & (graph.states == states)).nonzero()
        yield scope, {g: touching(graph, scope, g) for g in range(len(graph.groups))}


def _scopes(graph: FactorGraph, _: bool) -> Iterator[tuple[Tensor, Members]]:
    fresh = _first_of_their_scope(graph)
    for index, group in enumerate(graph.groups):
        if group.arity > 1 and len(group):
            scope = group.scope[fresh[index]]
            yield scope, {g: touching(graph, scope, g) for g in range(len(graph.groups))}
    yield from _alone(graph, ~_joined(graph))


def _pieces(graph: FactorGraph, with_ends: bool) -> Iterator[tuple[Tensor, Members]]:
    for index, group in enumerate(graph.groups):
        if len(group) and (group.arity > 1 or not with_ends):
            own = torch.arange(len(group))
            yield group.scope, {index: (own, own)} | _ends(graph, group.scope, with_ends)
    if with_ends:
        yield from _alone(graph, ~_joined(graph))


def _piece_variables(graph: FactorGraph, with_ends: bool) -> Iterator[tuple[Tensor, Members]]:
    for index, group in enumerate(graph.groups):
        if len(group) and (group.arity > 1 or not with_ends):
            own = torch.arange(len(group))
            for axis in range(group.arity):
                scope = group.scope[:, axis : axis + 1]
                yield scope, {index: (own, own)} | _ends(graph, scope, with_ends)
    if with_ends:
        yield from _alone(graph, ~_joined(graph))


def _ends(graph: FactorGraph, scope: Int64[Tensor, "n k"], wanted: bool) -> Members:
    groups = enumerate(graph.groups) if wanted else ()
    return {g: touching(graph, scope, g) for g, group in groups if group.arity == 1}


def _joined(graph: FactorGraph) -> Bool[Tensor, " v"]:
    """The variables that share a factor with another."""
    joined = torch.zeros(graph.variables, dtype=torch.bool)
    for group in graph.groups:
        if group.arity > 1:
            joined[group.scope.flatten()] = True
    return joined


def _first_of_their_scope(graph: FactorGraph) -> list[Bool[Tensor, " f"]]:
    """For each group the factors whose variables no factor before them has."""
    seen: list[Tensor] = []
    for arity in sorted({group.arity for group in graph.groups}):
        alike = [group for group in graph.groups if group.arity == arity]
        rows = torch.cat([group.scope for group in alike]).sort(dim=1).values.numpy()
        first = torch.zeros(len(rows), dtype=torch.bool)
        first[torch.from_numpy(np.unique(rows, axis=0, return_index=True)[1])] = True
        seen.append(first)
    streams = {
        arity: iter(first.split([len(g) for g in graph.groups if g.arity == arity]))
        for arity, first in zip(sorted({g.arity for g in graph.groups}), seen, strict=True)
    }
    return [next(streams[group.arity]) for group in graph.groups]


def touching(graph: FactorGraph, scope: Int64[Tensor, "n k"], group: int) -> Pairs:
    """The (problem, factor) pairs that share a variable, in the order of the problems."""
    factors = graph.groups[group].scope
    met = (_links(scope, graph.variables) @ _links(factors, graph.variables).T).tocsr()
    met.sort_indices()
    problem = np.repeat(np.arange(len(scope)), np.diff(met.indptr))
    return torch.from_numpy(problem), torch.from_numpy(met.indices.astype(np.int64))


def _links(scope: Int64[Tensor, "n k"], variables: int) -> csr_array:
    count, width = scope.shape
    ends = np.arange(0, count * width + 1, width)
    ones = np.ones(count * width, dtype=np.int32)
    return csr_array((ones, scope.reshape(-1).numpy(), ends), (count, variables))


def _with_parts(batch: FieldBatch, scope: Int64[Tensor, "n k"], members: Members) -> Problems:
    graph, parts = batch.graph, []
    for index, (problem, factor) in members.items():
        if not len(problem):
            continue
        here = graph.groups[index].scope[factor][:, :, None] == scope[problem][:, None, :]
        # For each axis of the factor the axis of the problem it is, or -1 where it is given.
        axis = torch.where(here.any(dim=2), here.int().argmax(dim=2), -1)
        for pattern in axis.unique(dim=0):
            chosen = (axis == pattern).all(dim=1)
            covers = sorted(int(place) for place in pattern if place >= 0)
            free = tuple(pattern.tolist().index(place) for place in covers)
            parts.append(ProblemPart(index, free, tuple(covers), problem[chosen], factor[chosen]))
    weight = torch.ones(len(scope), dtype=torch.float64)
    if batch.weight is not None:
        weight = batch.weight.double()[graph.component[scope[:, 0]]]
    return Problems(scope, weight, tuple(parts))


# How often each weight counts in the scores of known labels.


def observed_counts(
    model: LogLinearField, batch: FieldBatch, counts: list[Float[Tensor, " f"]]
) -> Float[Tensor, " p"]:
    """How often each weight counts in the scores of known labels, given how often factors do."""
    pieces: list[Tensor] = []
    for index, (count, template) in enumerate(zip(counts, model.templates, strict=True)):
        seen = count.nonzero().squeeze(1)
        scope = batch.graph.groups[index].scope[seen]
        cell = cells_of(batch.states[scope], template.shape)
        pieces.extend(_observed(model, batch, index, seen, cell, count[seen]))
    return torch.cat(pieces)


def times_of(batch: FieldBatch, problems: list[Problems]) -> list[Float[Tensor, " f"]]:
    """How often each factor takes part in problems."""
    counts = [torch.zeros(len(own), dtype=torch.float64) for own in batch.graph.groups]
    for own in problems:
        for part in own.parts:
            counts[part.group].index_add_(0, part.factor, own.weight[part.problem])
    return counts


def _observed(
    model: LogLinearField,
    batch: FieldBatch,
    index: int,
    seen: Tensor,
    cell: Tensor,
    count: Tensor,
) -> Iterator[Tensor]:
    template, features = model.templates[index], batch.features[index]
    row = batch.graph.groups[index].table[seen]
    place, owner = attributes_of(features, row)
    value = count[owner]
    if features.values is not None:
        value = value * features.values[place]
    found = template.find(features.attributes[place].long(), cell[owner])
    met = found != UNKNOWN
    total = torch.zeros(len(template), dtype=torch.float64)
    total.index_add_(0, found[met], value[met])
    yield total
    if len(model.dense[index]):
        dense = torch.zeros(template.cells, len(template.columns), dtype=torch.float64)
        assert features.dense is not None  # noqa: S101 - its columns have weights
        dense.index_add_(0, cell, features.dense[row].double() * count[:, None])
        yield dense.t().flatten()


# Piecewise likelihood with pieces of several factors: exact likelihood on the node-split graph.


def named_pieces(batch: FieldBatch, names: Sequence[Sequence[str]]) -> list[Int64[Tensor, " f"]]:
    """The piece of every factor: in each example, the factors of one list of templates are one."""
    owner = {name: number for number, own in enumerate(names) for name in own}
    known = [group.name for group in batch.graph.groups]
    if sorted(owner) != sorted(known) or sum(map(len, names)) != len(owner):
        raise GraphError(
            f"pieces {[list(own) for own in names]} must name each of the factors {known} once."
        )
    return [
        batch.graph.component_of(group) * len(names) + owner[group.name]
        for group in batch.graph.groups
    ]


def split_batch(batch: FieldBatch, pieces: Sequence[Int64[Tensor, " f"]]) -> FieldBatch:
    """The same labels and features on the node-split graph, whose examples are the pieces."""
    graph, origin = split_nodes(batch.graph, pieces)
    place = torch.full((batch.graph.variables,), -1)
    place[batch.uncertain] = torch.arange(len(batch.uncertain))
    uncertain = (place[origin] >= 0).nonzero().squeeze(1)
    weight = None
    if batch.weight is not None:
        weight = torch.zeros(graph.components, dtype=batch.weight.dtype)
        weight[graph.component] = batch.weight[batch.graph.component[origin]]
    return replace(
        batch,
        graph=graph,
        states=batch.states[origin],
        uncertain=uncertain,
        allowed=batch.allowed[place[origin[uncertain]]],
        weight=weight,
    )
