"""Which factors and which variables meet each variable, as padded arrays.

Padding: factor number F (one past the last) and variable number V; the rows of both are all
padding, so that lookups can be chained without a test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrflearn.graph.factor_graph import FactorGraph

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
    """The tables of one graph; their size is that of the most crowded variable, times V."""
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


def crowding(graph: FactorGraph) -> Integers:
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
