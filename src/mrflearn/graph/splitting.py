"""Mini-buckets: variables are split into copies until no table of an elimination is too wide.

Where the tables that meet a variable are too many for one product, they are parted into
mini-buckets, and each eliminates a copy of the variable [Dechter and Rish 2003].  The relaxed
problem is a field like any other, of small width [Choi and Darwiche 2007]; its shift factors say
what copies may exchange (functions whose sum over the copies is zero, or messages).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.graph.elimination import (
    EliminationPlan,
    EliminationStructure,
    Replicas,
    find_replicas,
    follow,
    plan_of,
)
from mrflearn.graph.elimination_orders import orders_of_any_width
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, Integers

MOST_SHARED = 2**10  # entries of a function that mini-buckets of one variable exchange
TRIED = 4  # elimination orders for each limit
SMALL = 8.0  # log2 of the entries that any limit allows


@dataclass(frozen=True)
class Limit:
    """What a table may have at most: variables, and log2 of its entries."""

    variables: int
    log2_entries: float


@dataclass(frozen=True)
class Splitting:
    """A structure whose variables are copies, in order of elimination.

    `original[k]` is the variable that copy k is of.  `shared` has, for every variable with several
    copies, one scope for each: the copies, as its mini-bucket knows them, of variables that
    all these mini-buckets have; the split variable's copy is the first.
    """

    structure: EliminationStructure
    original: tuple[int, ...]
    shared: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def extra(self) -> int:
        """Copies beyond the first of each variable."""
        return sum(len(copies) - 1 for copies in self.shared)


@dataclass(eq=False)
class _MiniBucket:
    """The tables of one product: which variables they have, and the mini-bucket it goes on to."""

    variable: int
    scope: set[int]
    parent: int = -1


def promising_orders(graph: FactorGraph) -> list[tuple[Replicas, list[list[int]]]]:
    """All components, those of one structure together, with the orders that fill tables least."""
    found = []
    for own in find_replicas(graph):
        structure = own.structure
        weights = [math.log2(count) for count in structure.states]
        ranked = []
        for order in orders_of_any_width(structure.neighbours(), weights):
            cliques = filled_cliques(structure, order)
            sizes = (sum(weights[v] for v in clique) for clique in cliques)
            ranked.append((sum(max(0.0, size - SMALL) for size in sizes), order))
        ranked.sort(key=lambda pair: pair[0])
        found.append((own, [order for _, order in ranked[:TRIED]]))
    return found


def filled_cliques(structure: EliminationStructure, order: Sequence[int]) -> list[set[int]]:
    """The variables of each table that an order leads to, however many there are."""
    place = {variable: k for k, variable in enumerate(order)}
    near = structure.neighbours()
    waiting: list[set[int]] = [set() for _ in order]
    found = []
    for k, variable in enumerate(order):
        rest = {v for v in waiting[k] | near[variable] if place[v] > k}
        found.append(rest | {variable})
        if rest:
            waiting[min(place[v] for v in rest)] |= rest
    return found


def splittings(graph: FactorGraph, limit: Limit) -> list[tuple[Replicas, Splitting]]:
    """For each structure the splitting of fewest copies, of the promising orders."""
    return [
        (own, min((split(own.structure, order, limit) for order in orders), key=_extra))
        for own, orders in graph.planned(promising_orders)
    ]


def _extra(found: Splitting) -> int:
    return found.extra


def split(structure: EliminationStructure, order: Sequence[int], limit: Limit) -> Splitting:
    """Mini-buckets in this order, filled greedily: the widest tables first, where most is shared.

    A table wider than the limit by itself stays as it is.
    """
    place = {variable: k for k, variable in enumerate(order)}
    weight = [math.log2(count) for count in structure.states]
    waiting: list[list[tuple[set[int], int, bool]]] = [[] for _ in order]
    first = [0] * len(structure.scopes)  # the mini-bucket of each factor
    for f, scope in enumerate(structure.scopes):
        free = {v for v in scope if structure.states[v] > 1} or {scope[0]}
        waiting[min(place[v] for v in free)].append((free, f, True))
    buckets: list[_MiniBucket] = []
    by_variable: list[list[int]] = []
    for k, variable in enumerate(order):
        own: list[_MiniBucket] = []
        numbers: list[int] = []
        widest = sorted(
            waiting[k], key=lambda item: (-sum(weight[v] for v in item[0]), min(item[0]), item[1])
        )
        for table, source, is_factor in widest:
            fits = [
                (len(table & bucket.scope), len(bucket.scope), -i)
                for i, bucket in enumerate(own)
                if _fits(table | bucket.scope, limit, weight) or table <= bucket.scope
            ]
            if fits:
                i = -max(fits)[2]
                own[i].scope |= table
            else:
                i = len(own)
                own.append(_MiniBucket(variable, set(table)))
                numbers.append(len(buckets) + i)
            if is_factor:
                first[source] = numbers[i]
            else:
                buckets[source].parent = numbers[i]
        if not own:
            own, numbers = [_MiniBucket(variable, {variable})], [len(buckets)]
        buckets += own
        by_variable.append(numbers)
        for number, bucket in zip(numbers, own, strict=True):
            rest = bucket.scope - {variable}
            if rest:
                waiting[min(place[v] for v in rest)].append((rest, number, False))
    lineage = _lineages(buckets)
    scopes = []
    for f, scope in enumerate(structure.scopes):
        copies = lineage[first[f]]
        # Variables of a single state are not in tables: any copy of theirs will do.
        scopes.append(tuple(copies.get(v, by_variable[place[v]][0]) for v in scope))
    shared = []
    for numbers in by_variable:
        if len(numbers) > 1:
            variable = buckets[numbers[0]].variable
            common = set.intersection(*(buckets[n].scope for n in numbers)) - {variable}
            chosen, entries = [variable], structure.states[variable]
            for v in sorted(common, key=place.__getitem__):
                if entries * structure.states[v] <= MOST_SHARED:
                    chosen.append(v)
                    entries *= structure.states[v]
            shared.append(tuple(tuple(lineage[n][v] for v in chosen) for n in numbers))
    original = tuple(bucket.variable for bucket in buckets)
    states = tuple(structure.states[v] for v in original)
    return Splitting(EliminationStructure(states, tuple(scopes)), original, tuple(shared))


def _fits(scope: set[int], limit: Limit, weight: list[float]) -> bool:
    return (
        len(scope) <= limit.variables and sum(weight[v] for v in scope) <= limit.log2_entries + 1e-9
    )


def _lineages(buckets: Sequence[_MiniBucket]) -> list[dict[int, int]]:
    """Which copies the variables of each mini-bucket are: those on its way to the root."""
    found: list[dict[int, int]] = [{}] * len(buckets)
    for number in reversed(range(len(buckets))):
        bucket = buckets[number]
        above = found[bucket.parent] if bucket.parent >= 0 else {}
        found[number] = {v: above[v] for v in bucket.scope if v != bucket.variable}
        found[number][bucket.variable] = number
    return found


# The relaxed field: the same tables on copies, and shift factors among the copies of a variable.


@dataclass(frozen=True, eq=False)
class SplitGraph:
    """A graph of copies; groups from `first_shift` on are the shift factors.

    `shift_owner[g][i]` is the number of the split variable that shift factor i of the g-th such
    group is for; there are `owners` of them.
    """

    graph: FactorGraph
    original: Int[Tensor, " k"]
    first_shift: int
    shift_owner: tuple[Int[Tensor, " f"], ...]
    owners: int
    parts: tuple[tuple[EliminationPlan, Replicas], ...]

    @property
    def entries(self) -> int:
        """Table entries that an evaluation holds."""
        most = max((plan.work for plan, _ in self.parts), default=0)
        return most + sum(plan.held * len(own.components) for plan, own in self.parts)


def make_split_graph(graph: FactorGraph, limit: Limit, alone: bool) -> SplitGraph:
    """The graph relaxed to a limit on tables; components of one structure are split alike.

    Shift factors are about the split variable `alone`, or about all that its copies share.
    """
    scopes = [group.scope.cpu().numpy().copy() for group in graph.groups]
    states: list[Integers] = []
    original: list[Integers] = []
    shifts: dict[tuple[int, ...], list[tuple[Integers, Integers]]] = {}
    lengths: dict[tuple[int, ...], int] = {}
    drafts = []
    start = owners = 0
    for own, found in graph.planned(splittings, limit):
        shared = [[scope[:1] if alone else scope for scope in parts] for parts in found.shared]
        copies, n = len(found.original), len(own.components)
        numbers = start + np.arange(n * copies).reshape(n, copies)
        start += n * copies
        states.append(np.tile(np.array(found.structure.states, dtype=np.int64), n))
        original.append(own.variables[:, list(found.original)].ravel())
        for (g, k), scope in zip(own.places, found.structure.scopes, strict=True):
            scopes[g][own.factors[g][:, k]] = numbers[:, list(scope)]
        mine: dict[tuple[int, ...], list[tuple[tuple[int, ...], Integers]]] = {}
        for which, parts in enumerate(shared):
            shape = tuple(found.structure.states[copy] for copy in parts[0])
            for scope in parts:
                rows = lengths.get(shape, 0) + np.arange(n)
                lengths[shape] = lengths.get(shape, 0) + n
                owner = owners + which + len(found.shared) * np.arange(n)
                shifts.setdefault(shape, []).append((numbers[:, list(scope)], owner))
                mine.setdefault(shape, []).append((scope, rows))
        owners += n * len(found.shared)
        drafts.append((own, found, numbers, mine))
    shapes = sorted(shifts)
    device = graph.device

    def tensor(parts: list[Integers]) -> Tensor:
        joined = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return torch.as_tensor(joined, device=device)

    groups = [
        replace(group, scope=torch.as_tensor(scope, device=device))
        for group, scope in zip(graph.groups, scopes, strict=True)
    ]
    for shape in shapes:
        name = f"shift {'x'.join(map(str, shape))}"
        groups.append(FactorGroup(name, tensor([scope for scope, _ in shifts[shape]])))
    copy_of = tensor(original)
    split_graph = FactorGraph(
        tensor(states), tuple(groups), graph.component[copy_of], graph.components
    )
    planned = []
    for own, found, numbers, mine in drafts:
        factors, extra = list(own.factors), []
        for shape in shapes:
            listed = mine.get(shape, [])
            extra += [scope for scope, _ in listed]
            none = np.empty((len(own.components), 0), dtype=np.int64)
            factors.append(np.stack([rows for _, rows in listed], axis=1) if listed else none)
        structure = EliminationStructure(found.structure.states, (*found.structure.scopes, *extra))
        order = list(range(len(found.original)))
        elimination = follow(structure, structure.neighbours(), order)
        assert not hasattr(elimination, "log2_entries")  # noqa: S101 - narrow by construction
        replicas = Replicas(structure, own.components, numbers, tuple(factors))
        planned.append((plan_of(structure, elimination), replicas))
    owner_of = tuple(tensor([own for _, own in shifts[shape]]) for shape in shapes)
    first = len(graph.groups)
    return SplitGraph(split_graph, copy_of, first, owner_of, owners, tuple(planned))
