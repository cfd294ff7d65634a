"""Numbers on a graph: log-potential tables, in nats.  Log-zero is -inf; +inf and NaN are errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from reprlib import repr as shortened
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.errors import GraphError
from mrflearn.execution.resources import moved
from mrflearn.graph.factor_graph import (
    FactorGraph,
    FactorGroup,
    disjoint_union,
    whole_number,
    whole_numbers,
)


@dataclass(frozen=True, eq=False)
class DenseTable:
    """A stack of t tables of one shape, entry by entry."""

    values: Float[Tensor, " t *shape"]

    @property
    def shape(self) -> tuple[int, ...]:
        """(t, s1, ..., sa)."""
        return tuple(self.values.shape)

    def dense(self) -> Float[Tensor, " t *shape"]:
        """Every entry."""
        return self.values

    def at(self, table: Int[Tensor, " f"], states: Int[Tensor, "*n f a"]) -> Float[Tensor, "*n f"]:
        """The entry of table `table[i]` at `states[..., i, :]`, for every factor i."""
        return self.values[(table, *states.unbind(dim=-1))]


@dataclass(frozen=True, eq=False)
class Potentials:
    """One stack of tables for every group of the graph.

    A stack is an array of scores, which are checked, or a `DenseTable`, whose numbers are taken as
    they are: models make those at every step of training.  `check_numbers` looks at them.
    """

    graph: FactorGraph
    tables: tuple[DenseTable, ...]

    def __post_init__(self) -> None:
        groups, given = self.graph.groups, tuple(self.tables)
        kept = (own.values if isinstance(own, DenseTable) else _scores(own) for own in given)
        object.__setattr__(self, "tables", tuple(map(DenseTable, kept)))
        if len(groups) != len(self.tables):
            raise GraphError(f"{len(groups)} factor groups, but {len(self.tables)} table stacks.")
        kinds = {table.dense().dtype for table in self.tables}
        if len(kinds) > 1 or not all(kind.is_floating_point for kind in kinds):
            raise GraphError(
                f"tables of the types {', '.join(sorted(map(str, kinds)))}: scores are "
                "floating-point numbers, of one type in all tables. Try .double() on each."
            )
        for group, table in zip(groups, self.tables, strict=True):
            if not len(group):
                continue
            expected, count = self.graph.shape(group), table.shape[0]
            if table.shape[1:] != expected:
                raise GraphError(
                    f"group '{group.name}': {expected} states, but tables of {table.shape[1:]}."
                )
            wrong = group.table[(group.table < 0) | (group.table >= count)]
            if len(wrong):
                raise GraphError(
                    f"group '{group.name}' reads table {int(wrong[0])}, but there are {count}."
                )
        if not all(isinstance(own, DenseTable) for own in given):
            self.check_numbers()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers (float64 when there are no factors)."""
        return self.tables[0].dense().dtype if self.tables else torch.float64

    def factor_scores(self, index: int) -> Float[Tensor, " f *shape"]:
        """The scores of every factor of group `index`, tied tables repeated."""
        return self.tables[index].dense()[self.graph.groups[index].table]

    def unary_scores(self) -> Float[Tensor, "v s"]:
        """The sum of the unary factors at each variable; -inf at states that it does not have."""
        graph, legal = self.graph, self.graph.legal()
        total = torch.zeros(legal.shape, dtype=self.dtype, device=graph.device)
        total = total.masked_fill(~legal, -torch.inf)
        for index, group in enumerate(graph.groups):
            if group.arity == 1 and len(group):
                scores = self.factor_scores(index)
                scores = pad(scores, (0, graph.most_states - scores.shape[1]))
                total = total.index_add(0, group.scope[:, 0], scores)
        return total

    def score(self, assignment: Int[Tensor, "*n v"]) -> Float[Tensor, "*n c"]:
        """The unnormalised log-probability of full assignments, one number per component."""
        assignment = torch.as_tensor(assignment, device=self.graph.device)
        graph = self.graph
        if assignment.shape[-1:] != (graph.variables,):
            raise GraphError(
                f"an assignment names {assignment.shape[-1]} states; the graph has "
                f"{graph.variables} variables."
            )
        shape = *assignment.shape[:-1], graph.components
        total = torch.zeros(shape, dtype=self.dtype, device=graph.device)
        for group, table in zip(graph.groups, self.tables, strict=True):
            if len(group):
                value = table.at(group.table, assignment[..., group.scope])
                total = total.index_add(-1, graph.component_of(group), value)
        return total

    def check_numbers(self) -> None:
        """Raises `GraphError` where a table holds NaN or +inf, naming group, table and entry."""
        for group, table in zip(self.graph.groups, self.tables, strict=True):
            wrong = _wrong_entry(table.dense())
            if wrong is not None:
                number, problem = wrong
                raise GraphError(f"group '{group.name}', table {number}: {problem}")

    def to(self, device: torch.device | str) -> Potentials:
        """The same numbers on another device."""
        return Potentials(self.graph.to(device), moved(self.tables, device))


def _wrong_entry(values: Float[Tensor, " t *shape"]) -> tuple[int, str] | None:
    """The first table that holds NaN or +inf, and what is wrong with it."""
    wrong = values.isnan() | (values == torch.inf)
    if not bool(wrong.any()):
        return None
    number, *place = wrong.nonzero()[0].tolist()
    found = f"the entry at {tuple(place)} is {float(values[(number, *place)])}"
    wanted = "scores are finite, or -inf where a state is impossible"
    return number, f"{found}; {wanted}. Is it the logarithm of a positive number or 0?"


def _scores(table: Tensor | ArrayLike) -> Tensor:
    """A table as a tensor: as it is, or what arrays and lists hold in double precision."""
    if isinstance(table, Tensor):
        return table
    try:
        return torch.as_tensor(np.asarray(table, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise GraphError(f"a table of scores is an array of numbers: {error}.") from error


def _pair(number: int, factor: Any) -> tuple[list[int], Any]:
    """The variables of a factor, as numbers, and its table."""
    try:
        scope, table = factor
    except (TypeError, ValueError) as error:
        wanted = "is a pair of variables and table, as in ([0, 1], [[0.0, 1.0], [1.0, 0.0]])"
        raise GraphError(f"factor {number} {wanted}, not {shortened(factor)}.") from error
    several = isinstance(scope, Iterable) and not isinstance(scope, str)
    found = [whole_number(own) for own in scope] if several and np.ndim(scope) else [None]
    variables = [own for own in found if own is not None]
    if len(variables) < len(found):
        wanted = "variables are a list of their numbers, from 0 on, as in [0] or [0, 1]"
        advice = "Give names to the numbers: rain, wet = range(2)."
        raise GraphError(f"factor {number} is over {shortened(scope)}; {wanted}. {advice}")
    return variables, table


def dense_potentials(
    states: Int[Tensor, " v"] | Sequence[int],
    factors: Sequence[tuple[Sequence[int], Tensor | ArrayLike]],
    *,
    component: Int[Tensor, " v"] | None = None,
) -> Potentials:
    """Potentials from a plain list of (scope, table) pairs of any arities and shapes.

    A table of log-scores is a tensor, an array or nested lists, with an axis for each variable of
    its scope.  Factors of one shape become one group, named after it, in order of first appearance.
    Scores are finite or, where a state is impossible, -inf; anything else is a `GraphError`.
    """
    counts = whole_numbers(states, "states of the variables")
    by_shape: dict[tuple[int, ...], list[int]] = {}
    pairs = [_pair(i, factor) for i, factor in enumerate(factors)]
    scores = [_scores(table) for _, table in pairs]
    for i, ((scope, _), table) in enumerate(zip(pairs, scores, strict=True)):
        if len(scope) != table.ndim:
            raise GraphError(
                f"factor {i} names {len(scope)} variables; its table has {table.ndim} axes."
            )
        by_shape.setdefault(tuple(table.shape), []).append(i)
    groups, tables = [], []
    for shape, members in by_shape.items():
        scopes = torch.tensor([pairs[i][0] for i in members], dtype=torch.int64)
        name = "x".join(map(str, shape))
        groups.append(FactorGroup(name, scopes.reshape(len(members), len(shape))))
        values = torch.stack([scores[i] for i in members])
        wrong = _wrong_entry(values)
        if wrong is not None:
            i, problem = members[wrong[0]], wrong[1]
            raise GraphError(f"factor {i}, over variables {pairs[i][0]}: {problem}")
        tables.append(DenseTable(values))
    graph = FactorGraph(counts, tuple(groups), component)  # type: ignore[arg-type]
    return Potentials(graph, tuple(tables))


def batch(fields: Sequence[Potentials]) -> Potentials:
    """One field whose components are the given fields; their tables are concatenated."""
    joined = disjoint_union([field.graph for field in fields])
    stacks = zip(*(field.tables for field in fields), strict=True)
    groups, tables = [], []
    for k, (group, stack) in enumerate(zip(joined.groups, stacks, strict=True)):
        starts = accumulate((table.shape[0] for table in stack), initial=0)
        own = [
            field.graph.groups[k].table + start
            for field, start in zip(fields, starts, strict=False)
        ]
        groups.append(replace(group, table=torch.cat(own)))
        tables.append(DenseTable(torch.cat([table.dense() for table in stack])))
    return Potentials(replace(joined, groups=tuple(groups)), tuple(tables))
