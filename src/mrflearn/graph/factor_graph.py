"""Factor graphs: variables, groups of factors, and which factor touches which variable.

Letters used in shapes throughout the library:
v: variables; f: factors of one group; a: their arity; t: tables of one group; c: components;
s: states (of the variable with the most of them, where variables differ).

Padding: factor number F (one past the last) and variable number V; the rows of both are all
padding, so that lookups can be chained without a test.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from reprlib import repr as shortened
from typing import Any, TypeVar, TypeVarTuple, Unpack

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.execution.resources import moved

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Numbers as users give them: lists, arrays and tensors in, or an error that says what was seen.


def whole_numbers(values: Any, what: str) -> Int[Tensor, "..."]:
    """Integers as a tensor; names, fractions and rows of unequal length are a `GraphError`."""
    try:
        found = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"{what}: whole numbers are needed, not {shortened(values)}.") from error
    whole = found.to(torch.int64)
    if found.is_floating_point() and bool((whole != found).any()):
        raise GraphError(f"{what}: whole numbers are needed, not {shortened(found.tolist())}.")
    return whole


def whole_number(value: Any) -> int | None:
    """An integer of Python, numpy or torch, or None."""
    try:
        return operator.index(value)
    except TypeError:
        return None


# Who is connected to whom: variables, factors and which of them share a table. No scores here.


@dataclass(frozen=True, eq=False)
class FactorGroup:
    """Factors of one arity and shape that read their scores from one stack of tables.

    `scope[i]` names the variables of factor i, `table[i]` the table it reads (equal entries are
    tied).
    """

    name: str
    scope: Int[Tensor, "f a"]
    table: Int[Tensor, " f"] = None  # type: ignore[assignment]  # filled below: one table a factor

    def __post_init__(self) -> None:
        # A copy: its maker may change it.
        scope = whole_numbers(self.scope, f"scope of group '{self.name}'").clone()
        if scope.ndim != 2 or scope.shape[1] == 0:
            raise GraphError(
                f"group '{self.name}': scope must have two axes (factors, arity of at least 1), "
                f"not shape {tuple(scope.shape)}. A constant is added to the table of some factor."
            )
        object.__setattr__(self, "scope", scope)
        table = torch.arange(len(scope), device=scope.device) if self.table is None else self.table
        numbers = whole_numbers(table, f"table numbers of group '{self.name}'").clone()
        object.__setattr__(self, "table", numbers)
        if self.table.shape != (len(scope),):
            raise GraphError(
                f"group '{self.name}' has {len(scope)} factors, but {len(numbers)} table numbers."
            )

    def __len__(self) -> int:
        return len(self.scope)

    @property
    def arity(self) -> int:
        return self.scope.shape[1]

    @classmethod
    def tied(cls, name: str, scope: Int[Tensor, "f a"]) -> FactorGroup:
        """A group whose factors all share one table."""
        scope = whole_numbers(scope, f"scope of group '{name}'")
        return cls(name, scope, torch.zeros(len(scope), dtype=torch.int64, device=scope.device))


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """Variables, their state counts, and groups of factors over them; frozen, without scores.

    `component[v]` says which example of a batch variable v belongs to (all 0: one example).  An
    example need not be connected, nor have any variable: `components` is given where the last
    examples of a batch are empty, and else counted.
    """

    states: Int[Tensor, " v"]
    groups: tuple[FactorGroup, ...] = ()
    component: Int[Tensor, " v"] = None  # type: ignore[assignment]  # filled below: zeros
    components: int = 0
    _plans: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    def __repr__(self) -> str:  # models print their settings, and a graph may be one
        sizes = ", ".join(f"{len(group):,} {group.name}" for group in self.groups)
        return f"<FactorGraph of {len(self.states):,} variables, factors: {sizes or 'none'}>"

    def __post_init__(self) -> None:
        states = whole_numbers(self.states, "states of the variables").clone()
        if states.ndim != 1:
            raise GraphError("states must have one entry a variable, as in [2, 3].")
        device, count = states.device, len(states)
        zeros = torch.zeros(count, dtype=torch.int64, device=device)
        component = zeros if self.component is None else torch.as_tensor(self.component)
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "component", component.to(torch.int64))
        object.__setattr__(self, "groups", tuple(self.groups))
        if component.shape != states.shape:
            raise GraphError("states and component must each have one entry a variable.")
        if count and int(states.min()) < 1:
            variable = int(states.argmin())
            raise GraphError(f"variable {variable} has {int(states.min())} states; 1 is the least.")
        if count and int(component.min()) < 0:
            raise GraphError("component numbers count from 0.")
        counted = int(component.max()) + 1 if count else 1
        object.__setattr__(self, "components", max(counted, self.components))
        for group in self.groups:
            if not isinstance(group, FactorGroup):
                raise GraphError(
                    "a graph has groups of factors, FactorGroup('pairs', [(0, 1), (1, 2)]), not "
                    f"this {type(group).__name__}. A field of (variables, table) pairs is made by "
                    "dense_potentials(states, factors)."
                )
            if len(group):
                self._check(group)

    def _check(self, group: FactorGroup) -> None:
        scope, count = group.scope, len(self.states)
        outside = (scope < 0) | (scope >= count)
        if bool(outside.any()):
            i, k = outside.nonzero()[0].tolist()
            raise GraphError(
                f"group '{group.name}', factor {i}: reads variable {int(scope[i, k])}, but there "
                f"are {count} (0 to {count - 1}). Does the source count from 1?"
            )
        ordered = scope.sort(dim=1).values
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(dim=1)
        if bool(repeated.any()):
            i = int(repeated.nonzero()[0])
            raise GraphError(
                f"group '{group.name}', factor {i}: names a variable twice, {scope[i].tolist()}."
            )
        shapes, owner = self.states[scope], self.component[scope]
        uneven = (shapes != shapes[0]).any(dim=1)
        if bool(uneven.any()):
            i = int(uneven.nonzero()[0])
            raise GraphError(
                f"group '{group.name}': factor 0 has shape {tuple(shapes[0].tolist())}, factor {i} "
                f"{tuple(shapes[i].tolist())}. Factors of different shape need groups of their own."
            )
        crossing = (owner != owner[:, :1]).any(dim=1)
        if bool(crossing.any()):
            i = int(crossing.nonzero()[0])
            raise GraphError(
                f"group '{group.name}', factor {i}: joins variables of different components, "
                f"{owner[i].tolist()}. Each example of a batch stands alone."
            )

    @property
    def variables(self) -> int:
        """How many variables there are."""
        return len(self.states)

    @property
    def device(self) -> torch.device:
        return self.states.device

    @property
    def most_states(self) -> int:
        """The state count of the variable that has the most."""
        return int(self.states.max()) if self.variables else 1

    def shape(self, group: FactorGroup) -> tuple[int, ...]:
        """The state counts along the axes of every factor of a (non-empty) group."""
        return tuple(int(n) for n in self.states[group.scope[0]])

    def component_of(self, group: FactorGroup) -> Int[Tensor, " f"]:
        """Which component each factor of a group belongs to."""
        return self.component[group.scope[:, 0]]

    def legal(self) -> Tensor:
        """A boolean (v, s) mask: which states each variable really has."""
        return torch.arange(self.most_states, device=self.device) < self.states.unsqueeze(-1)

    def planned(self, make: Callable[[FactorGraph, Unpack[Ts]], T], *settings: *Ts) -> T:
        """What `make` finds out about this graph: found once, and kept while the graph lives."""
        key = (make, *settings)
        if key not in self._plans:
            self._plans[key] = make(self, *settings)
        plan: T = self._plans[key]
        return plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}  # plans do not travel

    def to(self, device: torch.device | str) -> FactorGraph:
        """The same graph on another device."""
        if torch.device(device) == self.device:
            return self
        states, groups, component = moved((self.states, self.groups, self.component), device)
        return replace(self, states=states, groups=groups, component=component)


def disjoint_union(graphs: Sequence[FactorGraph]) -> FactorGraph:
    """One graph whose components are those of all the given graphs, in order.

    Groups are joined by position, so the graphs must have the same groups (names and arities);
    table numbers are kept, so that equal numbers are tied across the graphs.
    """
    if not graphs:
        raise GraphError("a batch needs at least one graph.")
    kinds = [[(group.name, group.arity) for group in graph.groups] for graph in graphs]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise GraphError(f"graph {i} of the batch has other groups than graph 0.")
    starts = list(accumulate((graph.variables for graph in graphs), initial=0))
    owners = list(accumulate((graph.components for graph in graphs), initial=0))
    groups = []
    for parts in zip(*(graph.groups for graph in graphs), strict=True):
        scope = torch.cat([p.scope + s for p, s in zip(parts, starts, strict=False)])
        groups.append(FactorGroup(parts[0].name, scope, torch.cat([p.table for p in parts])))
    states = torch.cat([graph.states for graph in graphs])
    component = torch.cat([g.component + s for g, s in zip(graphs, owners, strict=False)])
    return FactorGraph(states, tuple(groups), component, owners[-1])


# Which factors and which variables meet each variable, as padded arrays.


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Incidence:
    """Scopes of all factors of all groups, numbered through, and the tables of who meets whom."""

    states: Integers  # (V + 1); 0 for the padding
    scopes: Integers  # (F + 1, largest arity)
    factors_of: Integers  # (V + 1, most factors at one variable)
    neighbours_of: Integers  # (V + 1, most neighbours of one variable)
    starts: tuple[int, ...]  # the number of the first factor of each group, and F

    @property
    def variables(self) -> int:
        return len(self.states) - 1

    @property
    def factors(self) -> int:
        return len(self.scopes) - 1


def incidence(graph: FactorGraph) -> Incidence:
    """The tables of one graph; their size is the largest degree times V."""
    variables = graph.variables
    scopes = [group.scope.cpu().numpy() for group in graph.groups]
    starts = np.cumsum([0, *(len(scope) for scope in scopes)])
    width = max((scope.shape[1] for scope in scopes), default=1)
    joined = np.full((starts[-1] + 1, width), variables)
    for start, scope in zip(starts, scopes, strict=False):
        joined[start : start + len(scope), : scope.shape[1]] = scope
    factor, slot = np.nonzero(joined < variables)
    factors_of = _listed(joined[factor, slot], factor, variables, int(starts[-1]))
    others = joined[factors_of].reshape(variables + 1, -1)
    others[others == np.arange(variables + 1)[:, None]] = variables
    return Incidence(
        states=np.append(graph.states.cpu().numpy(), 0),
        scopes=joined,
        factors_of=factors_of,
        neighbours_of=distinct_rows(others, variables),
        starts=tuple(int(start) for start in starts),
    )


def factor_degrees(graph: FactorGraph) -> Integers:
    """How many factors meet each variable; cheap, and known before any table is made."""
    total = np.zeros(graph.variables, dtype=np.int64)
    for group in graph.groups:
        total += np.bincount(group.scope.cpu().numpy().ravel(), minlength=graph.variables)
    return total


def distinct_rows(rows: Integers, padding: int) -> Integers:
    """The distinct entries of each row, ascending, padding last, no wider than needed."""
    ordered = np.sort(rows, axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = padding
    ordered.sort(axis=1)
    widest = int((ordered < padding).sum(axis=1).max(initial=0))
    return ordered[:, :widest]


def _listed(key: Integers, value: Integers, keys: int, padding: int) -> Integers:
    """Row k lists the values that stand beside key k."""
    order = np.argsort(key, kind="stable")
    key, value = key[order], value[order]
    counts = np.bincount(key, minlength=keys + 1)
    place = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((keys + 1, int(counts.max(initial=0))), padding)
    table[key, place] = value
    return table
