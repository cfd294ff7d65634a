"""The steps of an elimination, laid out for computing: which tables meet where, over which axes.

Variables are labelled by the step that eliminates them, so the first axis of every table of step k
is k itself, and the message of step k has the other axes of its clique.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from weakref import WeakKeyDictionary

from mrflearn.graph.elimination import Elimination, Structure, find_elimination
from mrflearn.graph.elimination_orders import TooWide
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.replicas import Replicas, find_replicas

Axes = tuple[int, ...]

BLOCK = 2**18  # entries of a clique's table that are worked on at a time
PACK = 2**10  # entries of a product of factors that is always worth forming first


@dataclass(frozen=True)
class Step:
    """One clique: its axes and their sizes, the steps it hears from, the factors it takes in.

    Factors are packed: each pack is the product of some, over the axes it names.
    """

    axes: Axes
    sizes: tuple[int, ...]
    children: tuple[int, ...]
    packs: tuple[tuple[Axes, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Plan:
    """Everything about a structure that does not depend on numbers."""

    elimination: Elimination
    steps: tuple[Step, ...]
    factor_axes: tuple[Axes, ...]  # of each factor, without its single-state variables
    orders: tuple[tuple[int, ...], ...]  # how to permute a factor's own axes into ascending ones

    @property
    def entries(self) -> int:
        """Table entries in memory at the worst moment, for one copy.

        All messages are kept; at each step those of its children are there in both directions.
        """
        messages = [prod(step.sizes[1:]) for step in self.steps]
        twice = max(
            (sum(messages[child] for child in step.children) for step in self.steps), default=0
        )
        work = 2 * max(messages, default=0) + 4 * BLOCK
        return self.elimination.kept + self._packed() + twice + work

    def _packed(self) -> int:
        """Entries of all packs of factors."""
        total = 0
        for step in self.steps:
            size = dict(zip(step.axes, step.sizes, strict=True))
            total += sum(prod(size[axis] for axis in axes) for axes, _ in step.packs)
        return total


Planned = list[tuple[Plan | TooWide, Replicas]]
_PLANNED: WeakKeyDictionary[FactorGraph, Planned] = WeakKeyDictionary()


def planned(graph: FactorGraph) -> Planned:
    """All components, those of one structure together with its plan; kept while the graph lives."""
    if graph not in _PLANNED:
        found = find_replicas(graph)
        _PLANNED[graph] = [(make_plan(replicas.structure), replicas) for replicas in found]
    return _PLANNED[graph]


@lru_cache(maxsize=256)  # for graphs that are made anew around the same components
def make_plan(structure: Structure) -> Plan | TooWide:
    """The steps of the best elimination found."""
    elimination = find_elimination(structure)
    if isinstance(elimination, TooWide):
        return elimination
    place = {variable: k for k, variable in enumerate(elimination.order)}
    orders = [
        tuple(sorted(range(len(scope)), key=lambda i: place[scope[i]]))
        for scope in structure.scopes
    ]
    factor_axes = [
        _free_axes([scope[i] for i in order], place, structure.states)
        for scope, order in zip(structure.scopes, orders, strict=True)
    ]
    inside: list[list[int]] = [[] for _ in elimination.order]
    for factor, axes in enumerate(factor_axes):
        inside[axes[0]].append(factor)
    children: list[list[int]] = [[] for _ in elimination.order]
    for k, parent in enumerate(elimination.parent):
        if parent >= 0:
            children[parent].append(k)
    steps = []
    for k, clique in enumerate(elimination.cliques):
        size = {place[variable]: structure.states[variable] for variable in clique}
        packs = _pack(k, inside[k], factor_axes, size)
        steps.append(Step(tuple(size), tuple(size.values()), tuple(children[k]), packs))
    return Plan(elimination, tuple(steps), tuple(factor_axes), tuple(orders))


def _free_axes(ordered: list[int], place: dict[int, int], states: tuple[int, ...]) -> Axes:
    """The labels of a factor's variables that have a choice (or of one, where none has)."""
    free = [place[variable] for variable in ordered if states[variable] > 1]
    return tuple(free or [place[ordered[0]]])


def _pack(
    k: int, factors: list[int], axes: list[Axes], size: dict[int, int]
) -> tuple[tuple[Axes, tuple[int, ...]], ...]:
    """Factors put together while their product stays small beside the clique's own table."""
    most = max(PACK, prod(size.values()) // 32)
    packs: list[tuple[set[int], list[int]]] = []
    for factor in sorted(factors, key=lambda i: axes[i]):
        union = packs[-1][0] | set(axes[factor]) if packs else set()
        if packs and prod(size[axis] for axis in union) <= most:
            packs[-1][0].update(union)
            packs[-1][1].append(factor)
        else:
            packs.append((set(axes[factor]), [factor]))
    if not packs:  # nothing is said of this variable: an empty product
        packs = [({k}, [])]
    return tuple((tuple(sorted(union)), tuple(members)) for union, members in packs)
