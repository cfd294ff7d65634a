"""Local problems of an estimator: which variables are free, which factors count.

Every estimator that needs no inference is a sum of log p(free variables | the others) over small
problems, and differs from the rest only in which variables are free and which factors count:

| estimator | free | factors |
|---|---|---|
| pl | one variable | all around it [Sutton and McCallum 2009, eq. 5] |
| edge-pl | the variables of a factor | all around them [eq. 42] |
| pw | the variables of a factor | that factor [eq. 8] |
| pwpl | one variable of a factor | that factor [eq. 36, 37] |
| lap | the variables of a factor, of single variables too | all around them |

The last is what LAP comes to with dense auxiliary fields, where a free function of the neighbours
leaves the likelihood of a clique given them [Mizrahi 2014, section 3.1], and all problems share
their scores.

With `with_ends`, the piece of a factor of several variables takes the factors of its single
variables with it (pieces may overlap: section 3.1).

Letters in shapes: n: problems; k: free variables of each; m: members; f: factors of one group.
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
from mrflearn.features.index import cells_of
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import split_nodes
from mrflearn.models.field_batch import FieldBatch

# Which local problems an estimator solves: variables left free, and the factors that score them.


Local = Literal["pl", "edge-pl", "pw", "pwpl", "lap"]


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
        """Those that are wanted, renumbered."""
        number = wanted.cumsum(0) - 1
        parts = []
        for part in self.parts:
            kept = wanted[part.problem]
            if bool(kept.any()):
                problem = number[part.problem[kept]]
                parts.append(replace(part, problem=problem, factor=part.factor[kept]))
        return Problems(self.scope[wanted], self.weight[wanted], tuple(parts))


def find_problems(batch: FieldBatch, kind: Local, *, with_ends: bool = False) -> list[Problems]:
    """All problems of an estimator, one record a shape of factor, with the weights of examples."""
    graph, found = batch.graph, problems_of(batch.graph, kind, with_ends)
    if batch.weight is None:
        return found
    weight = batch.weight.double()
    return [replace(own, weight=weight[graph.component[own.scope[:, 0]]]) for own in found]


def problems_of(graph: FactorGraph, kind: Local, with_ends: bool = False) -> list[Problems]:
    """All problems of an estimator on a graph, one record a shape of factor."""
    found = _pieces(graph, kind, with_ends) if "pw" in kind else _around(graph, kind)
    return [_with_parts(graph, scope, pairs) for scope, pairs in found if len(scope)]


Members = dict[int, tuple[Int64[Tensor, " m"], Int64[Tensor, " m"]]]  # group: (problem, factor)


def _around(graph: FactorGraph, kind: Local) -> Iterator[tuple[Tensor, Members]]:
    """Every variable, or the variables of every factor, with all the factors around them."""
    if kind == "pl":
        yield from _alone(graph, torch.ones(graph.variables, dtype=torch.bool))
        return
    seen: set[tuple[int, ...]] = set()
    for group in graph.groups:
        rows = [tuple(row) for row in group.scope.sort(dim=1).values.tolist()]
        first = {row: place for place, row in reversed([*enumerate(rows)]) if row not in seen}
        seen.update(rows)
        if group.arity > (kind == "edge-pl") and first:
            scope = group.scope[sorted(first.values())]
            yield scope, _touching(graph, scope)
    if kind == "edge-pl":
        yield from _alone(graph, ~_joined(graph))


def _alone(graph: FactorGraph, chosen: Bool[Tensor, " v"]) -> Iterator[tuple[Tensor, Members]]:
    """Each chosen variable with all the factors around it, by number of states."""
    for states in graph.states[chosen].unique().tolist():
        scope = (chosen & (graph.states == states)).nonzero()
        yield scope, _touching(graph, scope)


def _pieces(graph: FactorGraph, kind: Local, with_ends: bool) -> Iterator[tuple[Tensor, Members]]:
    """The variables of every factor, together ("pw") or one by one ("pwpl"), and that factor."""
    for index, group in enumerate(graph.groups):
        if len(group) and (group.arity > 1 or not with_ends):
            own, axes = torch.arange(len(group)), range(group.arity)
            for free in [[*axes]] if kind == "pw" else [[axis] for axis in axes]:
                scope = group.scope[:, free]
                ends = _touching(graph, scope, single=True) if with_ends else {}
                yield scope, {index: (own, own)} | ends
    if with_ends:
        yield from _alone(graph, ~_joined(graph))


def _joined(graph: FactorGraph) -> Bool[Tensor, " v"]:
    """The variables that share a factor with another."""
    joined = torch.zeros(graph.variables, dtype=torch.bool)
    for group in graph.groups:
        if group.arity > 1:
            joined[group.scope.flatten()] = True
    return joined


def _touching(graph: FactorGraph, scope: Int64[Tensor, "n k"], single: bool = False) -> Members:
    """The (problem, factor) pairs that share a variable, in the order of the problems.

    With `single`, of factors of single variables alone.
    """
    found, links = {}, _links(scope, graph.variables)
    for index, group in enumerate(graph.groups):
        if group.arity == 1 or not single:
            met = (links @ _links(group.scope, graph.variables).T).tocsr()
            met.sort_indices()
            problem = np.repeat(np.arange(len(scope)), np.diff(met.indptr))
            factor = met.indices.astype(np.int64)
            found[index] = torch.from_numpy(problem), torch.from_numpy(factor)
    return found


def _links(scope: Int64[Tensor, "n k"], variables: int) -> csr_array:
    count, width = scope.shape
    ends = np.arange(0, count * width + 1, width)
    ones = np.ones(count * width, dtype=np.int32)
    return csr_array((ones, scope.reshape(-1).numpy(), ends), (count, variables))


def _with_parts(graph: FactorGraph, scope: Int64[Tensor, "n k"], members: Members) -> Problems:
    parts = []
    for index, (problem, factor) in members.items():
        if not len(problem):
            continue
        here = graph.groups[index].scope[factor][:, :, None] == scope[problem][:, None, :]
        # For each axis of the factor the axis of the problem it is, or -1 where it is given.
        axis = torch.where(here.any(dim=2), here.int().argmax(dim=2), -1)
        code = cells_of(axis + 1, [scope.shape[1] + 1] * axis.shape[1])
        for number in code.unique():  # of rows, this is ten times faster than unique(dim=0)
            chosen = code == number
            pattern = axis[int(chosen.int().argmax())].tolist()
            covers = sorted(place for place in pattern if place >= 0)
            free = tuple(pattern.index(place) for place in covers)
            parts.append(ProblemPart(index, free, tuple(covers), problem[chosen], factor[chosen]))
    return Problems(scope, torch.ones(len(scope), dtype=torch.float64), tuple(parts))


# Piecewise likelihood with pieces of several factors: exact likelihood on the node-split graph.


def named_pieces(batch: FieldBatch, names: Sequence[Sequence[str]]) -> list[Int64[Tensor, " f"]]:
    """The piece of every factor: in each example, the factors of one list of templates are one."""
    owner = {name: number for number, own in enumerate(names) for name in own}
    known = [group.name for group in batch.graph.groups]
    if sorted(owner) != sorted(known) or sum(map(len, names)) != len(owner):
        given = [list(own) for own in names]
        raise GraphError(f"pieces {given} must name each of the factors {known} once.")
    graph = batch.graph
    return [graph.component_of(own) * len(names) + owner[own.name] for own in graph.groups]


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
