"""The cheapest way found to sum all variables out: an order, and the tree of tables it leads to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mrflearn.graph.elimination_orders import HOPELESS, Neighbours, TooWide, orders

CHEAP = 2**23  # table entries in all that are not worth a search for fewer


@dataclass(frozen=True)
class Structure:
    """State counts and scopes, in a form that can be compared and looked up."""

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    def neighbours(self) -> Neighbours:
        """The variables that share a factor with each; none for variables of a single state."""
        near: Neighbours = [set() for _ in self.states]
        for scope in set(self.scopes):
            free = [variable for variable in scope if self.states[variable] > 1]
            for variable in free:
                near[variable].update(free)
        for variable, others in enumerate(near):
            others.discard(variable)
        return near


@dataclass(frozen=True)
class Elimination:
    """An order and the tree of tables it leads to; step k eliminates variable `order[k]`.

    `cliques[k]` names the variables of the table of step k in order of elimination, so its first
    is the one eliminated; the rest go on to the table of step `parent[k]` (-1: there are none).
    """

    order: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    parent: tuple[int, ...]
    largest: int  # entries of the largest table
    total: int  # entries of all tables
    kept: int  # entries of all messages from table to table

    @property
    def width(self) -> int:
        """The most variables in one table, less one."""
        return max((len(clique) for clique in self.cliques), default=1) - 1


def find_elimination(structure: Structure) -> Elimination | TooWide:
    """The elimination of fewest table entries that was found; the same one at every call."""
    near = structure.neighbours()
    weights = [math.log2(count) for count in structure.states]
    best: Elimination | None = None
    failures = []
    for order in orders(near, weights):
        outcome = order if isinstance(order, TooWide) else _follow(structure, near, order)
        if isinstance(outcome, TooWide):
            failures.append(outcome)
        elif best is None or outcome.total < best.total:
            best = outcome
        if best is not None and best.total <= CHEAP:
            break
    return best or min(failures, key=lambda failure: failure.log2_entries)


def _follow(structure: Structure, near: Neighbours, order: list[int]) -> Elimination | TooWide:
    """The tables that an order leads to."""
    place = {variable: k for k, variable in enumerate(order)}
    waiting: list[set[int]] = [set() for _ in order]  # places that come in with messages
    cliques, parent = [], []
    largest = total = kept = 0
    for k, variable in enumerate(order):
        later = waiting[k]
        later.update(place[other] for other in near[variable] if place[other] > k)
        later.discard(k)
        waiting[k] = set()
        clique = [variable, *(order[p] for p in sorted(later))]
        message = math.prod(structure.states[v] for v in clique[1:])
        size = message * structure.states[variable]
        if size > 2**HOPELESS:
            return TooWide(len(clique), math.log2(size))
        largest, total, kept = max(largest, size), total + size, kept + message
        cliques.append(tuple(clique))
        parent.append(min(later, default=-1))
        if later:
            waiting[parent[-1]] |= later
    return Elimination(tuple(order), tuple(cliques), tuple(parent), largest, total, kept)
