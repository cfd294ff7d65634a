"""The local problems of a graph: every clique, or every variable, with its neighbourhood.

    estimator       free variables    factors that count    terms among the other variables
    lap             each clique       all that touch it     the auxiliary family
    pl, consensus   each variable     all that touch it     any: they are given
    pw              each clique       its own               there are no others

A_q holds the variables of clique q and all that share a clique with one of them.  Summing out a
connected set of variables joins all variables that it touches in one new clique, so the structure
of the marginal over a neighbourhood follows from the connected components of the rest of the graph.
They are looked for close by first, for all neighbourhoods at once: on a lattice the rest is one
piece, and that shows within a few steps.

Everything is done for thousands of cliques at a time; neighbours are put in an order (states, which
variables of the clique they meet, number) under which the cliques of a lattice have few shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, pairwise, product
from math import prod
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import (
    FactorGraph,
    Incidence,
    Integers,
    distinct_rows,
    factor_degrees,
    incidence,
)

# Shapes that neighbourhoods share: what the local problems of many cliques have in common.


Places = tuple[int, ...]


@dataclass(frozen=True)
class LocalShape:
    """An auxiliary field on a neighbourhood, up to the numbers of its variables.

    `touching` are the cliques of the graph that share one of the `own` variables, the clique over
    just these (if there is one) first and in the order of its scope.  `inside` are the sets of
    other variables that have a term of their own; None stands for all, that is for any function.
    The last `given` variables may follow any function too: sets of these alone are left out.
    """

    sizes: tuple[int, ...]
    own: int
    touching: tuple[Places, ...]
    inside: tuple[Places, ...] | None = None
    given: int = 0

    @property
    def cells(self) -> int:
        """The joint states of the whole neighbourhood."""
        return prod(self.sizes)

    @property
    def summed(self) -> int:
        """How many leading variables the model is a distribution over, given the others.

        Where some others may follow any distribution, maximum likelihood fits that one perfectly
        and what is left is the likelihood of the rest *given* them: the free function costs
        nothing.  Else it is the joint distribution of the neighbourhood.
        """
        return self.own if self.inside is None else len(self.sizes) - self.given

    @cached_property
    def terms(self) -> NDArray[np.int64]:
        """The states of every term (0: absent), one row a parameter: touching cliques first."""
        rows = []
        for places in self.touching + (self.inside or ()):
            for states in product(*(range(1, self.sizes[place]) for place in places)):
                row = [0] * len(self.sizes)
                for place, state in zip(places, states, strict=True):
                    row[place] = state
                rows.append(row)
        return np.array(rows, dtype=np.int64).reshape(-1, len(self.sizes))

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where in `terms` the parameters of each touching clique stand."""
        ends = accumulate(map(self.free, self.touching), initial=0)
        return tuple(slice(start, end) for start, end in pairwise(ends))

    @cached_property
    def work(self) -> int:
        """The entries of the largest table that one problem of this shape needs."""
        sets = self.touching + (self.inside or ())
        terms, summed = sum(map(self.free, sets)), self.summed
        if self.contexts == 1:
            return max(self.cells, terms**2)
        parts = {tuple([place for place in places if place < summed]) for places in sets}
        count = sum(map(self.free, parts))
        return max(self.cells, terms**2, count * (count + 1) // 2 * self.contexts)

    def free(self, places: Places) -> int:
        """The parameters of the terms over these places."""
        return prod([self.sizes[place] - 1 for place in places])

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """The number of every term among the joint states."""
        return self.terms @ self.strides

    @cached_property
    def strides(self) -> NDArray[np.int64]:
        """How far apart neighbouring states of each variable lie."""
        return np.cumprod([1, *self.sizes[:0:-1]])[::-1].astype(np.int64)

    @cached_property
    def joins(self) -> NDArray[np.int64]:
        """The number of the join of every two terms; `cells` where they exclude each other."""
        number, clash = join_terms(self.terms, self.strides)
        return np.where(clash, self.cells, number)

    @cached_property
    def contexts(self) -> int:
        """The joint states of the variables that are given, not summed."""
        return prod(self.sizes[self.summed :])


def join_terms(
    terms: NDArray[np.int64], strides: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of the join of every two terms, and where they exclude each other."""
    number = np.zeros((len(terms), len(terms)), dtype=np.int64)
    clash = np.zeros(number.shape, dtype=bool)
    for states, stride in zip(terms.T, strides, strict=True):
        row, column = states[:, None], states[None, :]
        number += np.maximum(row, column) * stride
        clash |= (row != column) & (row > 0) & (column > 0)
    return number, clash


def largest_free(sizes: tuple[int, ...], masks: Iterable[int]) -> int:
    """The largest of these sets of places, as bits, where to take it as given pays; else 0.

    It does where its joint states are at least as many as those that are left to be summed.
    """
    free = max(masks, key=int.bit_count, default=0)
    return free if prod([sizes[place] for place in places_of(free)]) ** 2 >= prod(sizes) else 0


def given_last(shape: LocalShape, free: int) -> tuple[list[int], LocalShape]:
    """The order of places that puts the `free` ones last, and the shape in that order.

    `inside` names no set within `free`: these variables may follow any function.
    """
    order = list(range(len(shape.sizes)))
    if shape.inside is None or not free:
        return order, shape
    order.sort(key=lambda place: free >> place & 1)
    to = {place: number for number, place in enumerate(order)}
    touching, inside = (
        tuple([tuple(sorted([to[place] for place in places])) for places in sets])
        for sets in (shape.touching[1:], shape.inside)
    )
    sizes = tuple([shape.sizes[place] for place in order])
    own = shape.touching[0]  # whose places stay what they are
    return order, LocalShape(sizes, shape.own, (own, *touching), inside, free.bit_count())


def subsets_of(masks: Iterable[int], without: int = 0) -> set[Places]:
    """All non-empty subsets of the sets of places that bit masks stand for.

    Those of the set `without` are left out.
    """
    kept = set(places_of(without))
    wanted = (places_of(mask) for mask in masks if mask & ~without)
    subsets = (s for own in wanted for k in range(len(own)) for s in combinations(own, k + 1))
    return {places for places in subsets if not kept.issuperset(places)}


def places_of(mask: int) -> Places:
    """The places of the bits that are set, ascending."""
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)


# What a marginal field inherits from the variables that were summed out.

# How many variables may be labelled, in all, to distinguish pieces that do not meet close by.
# Pieces that are not distinguished are taken as one, which adds terms and keeps the estimate
# consistent [Mizrahi 2014, after Proposition 4].
VISITS = 40_000_000
VISITS_AT_ONCE = 1_000_000


def inherited_cliques(known: Incidence, inside: Integers) -> Integers:
    """For each neighbourhood (q, n) the cliques (q, k) that the outside leaves, as bit masks.

    Bit i stands for the variable in column i; rows are padded with 0.
    """
    none, count = known.variables, len(inside)
    # The ball: variables outside each neighbourhood, up to two steps away, rows ascending.
    ball, frontier = np.zeros((count, 0), dtype=np.int64), inside
    for _ in range(2):
        reached = known.neighbours_of[frontier].reshape(count, -1)
        joined = np.concatenate([ball, reached], axis=1)
        joined[_position(inside, joined, none) >= 0] = none
        ball = frontier = distinct_rows(joined, none)
    beyond = known.neighbours_of[ball]
    flat = beyond.reshape(count, -1)
    links = _position(ball, flat, none).reshape(beyond.shape)
    bit = _position(inside, flat, none).reshape(beyond.shape)
    touches = np.bitwise_or.reduce(np.where(bit >= 0, 1 << np.maximum(bit, 0), 0), axis=2)
    leads_away = ((beyond < none) & (links < 0) & (bit < 0)).any(axis=2)
    labels = _components(links)
    rows = np.broadcast_to(np.arange(count)[:, None], labels.shape)
    is_open = np.zeros(labels.shape, dtype=bool)
    np.logical_or.at(is_open, (rows, labels), leads_away)
    unknown = np.nonzero(is_open.sum(axis=1) > 1)[0]
    if len(unknown) * none <= VISITS:
        together = max(1, VISITS_AT_ONCE // max(1, none))
        for start in range(0, len(unknown), together):
            part = unknown[start : start + together]
            far = np.take_along_axis(_components_outside(known, inside[part]), ball[part], axis=1)
            labels[part] = (far[:, :, None] == far[:, None, :]).argmax(axis=2)
    else:
        first = is_open.argmax(axis=1)[:, None]
        labels = np.where(np.take_along_axis(is_open, labels, axis=1), first, labels)
    masks = np.zeros_like(labels)
    np.bitwise_or.at(masks, (rows, labels), touches)
    masks = -np.sort(-masks, axis=1)
    return masks[:, : int((masks > 0).sum(axis=1).max(initial=0))]


def _components(links: Integers) -> Integers:
    """For each place of each row (q, b) the first place that it is connected to.

    `links` (q, b, d) are the places in its row that it is joined to, -1 for none.
    """
    count, width = links.shape[:2]
    linked, start = links >= 0, width * np.arange(count)[:, None]
    joined = (links + start[:, :, None])[linked].astype(np.int32)
    ends = np.concatenate([[0], linked.sum(axis=2).cumsum()]).astype(np.int32)
    nodes = csr_array((np.ones(len(joined), dtype=np.int8), joined, ends), (len(ends) - 1,) * 2)
    found, labels = connected_components(nodes, directed=False)
    first = np.empty(found, dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]  # the last to be written is the first
    places: Integers = first[labels].reshape(count, width) - start
    return places


def _components_outside(known: Incidence, inside: Integers) -> Integers:
    """The component of every variable (and of none) in the graph without each neighbourhood."""
    none, count = known.variables, len(inside)
    links = np.broadcast_to(known.neighbours_of[:none], (count, none, known.neighbours_of.shape[1]))
    blocked = np.zeros((count, none + 1), dtype=bool)
    blocked[np.arange(count)[:, None], inside] = True
    blocked[:, none] = True
    open_ = ~(np.take_along_axis(blocked[:, None], links, axis=2) | blocked[:, :none, None])
    labels = _components(np.where(open_, links, -1))
    return np.concatenate([labels, np.full((count, 1), -1)], axis=1)


def _position(rows: Integers, wanted: Integers, none: int) -> Integers:
    """The column of each row's entry among that row's `rows`; -1 where it is not there."""
    order = np.argsort(rows, axis=1)
    offset = np.arange(len(rows))[:, None] * (none + 1)
    ordered = (np.take_along_axis(rows, order, axis=1) + offset).ravel()
    if not len(ordered):
        return np.full(wanted.shape, -1)
    key = wanted + offset
    place = np.minimum(np.searchsorted(ordered, key), len(ordered) - 1)
    found = (ordered[place] == key) & (wanted < none)
    return np.where(found, order.ravel()[place], -1)


# The 1-neighbourhoods of all cliques, grouped by shape [Mizrahi 2014, section 3].


Auxiliary = Literal["exact", "dense", "pairwise"]
CLIQUES_AT_ONCE = 8192
MOST_VARIABLES = 60  # of one neighbourhood; sets of them are numbers of 64 bits
MOST_FACTORS = 48  # at one variable; more would make any table over a neighbourhood hopeless


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Cliques whose local problems have one shape.

    `scope` names the variables of each neighbourhood, `factors` the touching cliques by their
    number in the whole graph (groups one after the other); the first is the clique itself.
    """

    shape: LocalShape
    scope: Int[Tensor, "q n"]
    factors: Int[Tensor, "q t"]

    def __len__(self) -> int:
        return self.scope.shape[0]


def degree_limit_error(graph: FactorGraph) -> str | None:
    """Why neighbourhoods cannot be tabulated here, where a variable is in too many cliques."""
    degrees = factor_degrees(graph)
    if not len(degrees) or degrees.max() <= MOST_FACTORS:
        return None
    return (
        f"variable {int(degrees.argmax())} is in {int(degrees.max())} cliques, too many to count "
        f"the joint states around it (at most {MOST_FACTORS} can be handled)"
    )


def neighbourhoods(graph: FactorGraph, auxiliary: Auxiliary = "exact") -> list[Neighbourhoods]:
    """The local problems of every clique."""
    known = _known(graph)
    numbers = [np.arange(first, end) for first, end in pairwise(known.starts)]
    groups = zip(numbers, graph.groups, strict=True)
    targets = [(own, known.scopes[own, : group.arity]) for own, group in groups]
    return _gathered(known, targets, auxiliary, graph.device)


def blankets(graph: FactorGraph) -> list[Neighbourhoods]:
    """Every variable that is in a clique, given its neighbours: what pseudolikelihood looks at."""
    own = np.nonzero(factor_degrees(graph))[0][:, None]
    return _gathered(_known(graph), [(None, own)], "dense", graph.device)


def lone_cliques(graph: FactorGraph) -> list[Neighbourhoods]:
    """The cliques of each group by themselves, with a free table: terms of all their subsets."""
    found, start = [], 0
    for group in graph.groups:
        axes = range(group.arity)
        subsets = tuple(s for k in reversed(axes) for s in combinations(axes, k + 1))
        sizes = graph.shape(group) if len(group) else (1,) * group.arity
        own = start + torch.arange(len(group), device=graph.device).unsqueeze(1)
        found.append(Neighbourhoods(LocalShape(sizes, group.arity, subsets), group.scope, own))
        start += len(group)
    return found


def _known(graph: FactorGraph) -> Incidence:
    reason = degree_limit_error(graph)
    if reason:
        raise GraphError(f"{reason}. Use pseudolikelihood (the estimator 'pl') on such a graph.")
    return incidence(graph)


def _gathered(
    known: Incidence,
    targets: Sequence[tuple[Integers | None, Integers]],
    auxiliary: Auxiliary,
    device: torch.device,
) -> list[Neighbourhoods]:
    gathered: dict[LocalShape, list[tuple[Integers, Integers]]] = {}
    for cliques, own in targets:
        for start in range(0, len(own), CLIQUES_AT_ONCE):
            here = slice(start, start + CLIQUES_AT_ONCE)
            part = None if cliques is None else cliques[here]
            for shape, scope, factors in _shapes(known, own[here], part, auxiliary):
                gathered.setdefault(shape, []).append((scope, factors))
    return [
        Neighbourhoods(shape, *(torch.from_numpy(np.concatenate(k)).to(device) for k in columns))
        for shape, columns in ((s, zip(*parts, strict=True)) for s, parts in gathered.items())
    ]


def _shapes(
    known: Incidence, own: Integers, cliques: Integers | None, auxiliary: Auxiliary
) -> Iterator[tuple[LocalShape, Integers, Integers]]:
    """The shapes around the variables `own`, where `cliques` are the cliques over just them."""
    local, touching, places = _local(known, own, cliques)
    count, arity = own.shape
    none = np.zeros((count, 0), dtype=np.int64)
    sizes = known.states[local]
    inside = none if auxiliary == "dense" else _inside(known, local, arity)
    inherited = inherited_cliques(known, local) if auxiliary == "exact" else none
    rows = np.concatenate([sizes, places.reshape(count, -1), inside, inherited], axis=1)
    for members in _grouped(rows):
        first = members[0]
        states = tuple([size for size in sizes[first].tolist() if size])
        scopes = ([place for place in row if place >= 0] for row in places[first].tolist())
        masks = inherited[first].tolist()
        free = largest_free(states, masks)
        sets = _inside_sets(
            auxiliary, range(arity, len(states)), inside[first].tolist(), masks, free
        )
        shape = LocalShape(states, arity, tuple([tuple(s) for s in scopes if s]), sets)
        order, shape = given_last(shape, free)
        yield shape, local[members][:, order], touching[members, : len(shape.touching)]


def _local(
    known: Incidence, own: Integers, cliques: Integers | None
) -> tuple[Integers, Integers, Integers]:
    """Variables of each neighbourhood, factors that touch it, and where these stand in it.

    Without cliques, every touching factor keeps the order of its own scope, so that its table can
    be read as it is; with them only the clique itself has to, and more shapes are identical.
    """
    touching = distinct_rows(known.factors_of[own].reshape(len(own), -1), known.factors)
    local = np.concatenate([own, _neighbours(known, own, touching)], axis=1)
    if local.shape[1] > MOST_VARIABLES:
        widest = own[(local < known.variables).sum(axis=1).argmax()].tolist()
        raise GraphError(
            f"the neighbourhood of {widest} has {local.shape[1]} variables, too many to count "
            "their joint states. Use pseudolikelihood (the estimator 'pl')."
        )
    places = _places(known, local, touching)
    order = _canonical(known, cliques, touching, places)
    touching = np.take_along_axis(touching, order, axis=1)
    places = np.take_along_axis(places, order[:, :, None], axis=1)
    if cliques is not None:
        places[:, 1:] = np.sort(places[:, 1:], axis=2)
    return local, touching, places


def _neighbours(known: Incidence, own: Integers, touching: Integers) -> Integers:
    """The other variables of the touching cliques, in canonical order, padded."""
    none = known.variables
    others = known.scopes[touching].reshape(len(own), -1)
    for place in range(own.shape[1]):
        others[others == own[:, place, None]] = none
    others = distinct_rows(others, none)
    key = known.states[others]
    for place in range(own.shape[1]):
        met = known.neighbours_of[own[:, place]]
        key = key * 2 + (others[:, :, None] == met[:, None, :]).any(axis=2)
    key = np.where(others < none, key * (none + 1) + others, np.iinfo(np.int64).max)
    return np.take_along_axis(others, np.argsort(key, axis=1), axis=1)


def _places(known: Incidence, local: Integers, factors: Integers) -> Integers:
    """Where each variable of each factor stands in the neighbourhood; -1 for none (or padding)."""
    scopes = known.scopes[factors]
    equal = scopes[..., None] == local[:, None, None, :]
    found = equal.any(axis=-1) & (scopes < known.variables)
    return np.where(found, equal.argmax(axis=-1), -1)


def _canonical(
    known: Incidence, cliques: Integers | None, touching: Integers, places: Integers
) -> Integers:
    """An order of the touching factors: the clique itself, then by the places they join."""
    code = np.where(places >= 0, np.int64(1) << np.maximum(places, 0), 0).sum(axis=2)
    padding = touching == known.factors
    code[padding] = np.iinfo(np.int64).max
    if cliques is None:
        return np.argsort(code, axis=1, kind="stable")
    order = np.argsort(np.where(touching == cliques[:, None], -1, code), axis=1)
    ascending = np.sort(code, axis=1)
    twice = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] < np.iinfo(np.int64).max)
    if bool(twice.any()):
        scope = known.scopes[cliques[twice.any(axis=1).argmax()]]
        raise GraphError(
            f"near clique {scope[scope < known.variables].tolist()} two cliques are over the same "
            "variables, so no data can tell their tables apart. Merge them into one."
        )
    return order


def _inside(known: Incidence, local: Integers, arity: int) -> Integers:
    """The factors of the graph among a neighbourhood's other variables, as bit masks."""
    around = known.factors_of[local[:, arity:]].reshape(len(local), -1)
    near = distinct_rows(around, known.factors)
    places = _places(known, local, near)
    members = known.scopes[near] < known.variables
    within = ((places >= arity) == members).all(axis=2) & members.any(axis=2)
    masks = np.where(members & within[..., None], np.int64(1) << np.maximum(places, 0), 0)
    masks = -np.sort(-masks.sum(axis=2), axis=1)
    return masks[:, : int((masks > 0).sum(axis=1).max(initial=0))]


def _inside_sets(
    auxiliary: Auxiliary, others: range, given: list[int], inherited: list[int], free: int
) -> tuple[tuple[int, ...], ...] | None:
    """The sets of others, but those within `free`, with a term of their own; None for all."""
    if auxiliary == "dense":
        return None
    sets = {places_of(mask) for mask in given if mask & ~free}
    if auxiliary == "pairwise":
        sets |= {(place,) for place in others} | set(combinations(others, 2))
    else:
        sets |= subsets_of(inherited, free)
    full = 2 ** len(others) - 2 ** free.bit_count()
    return None if len(sets) == full else tuple(sorted(sets, key=lambda s: (len(s), s)))


def _grouped(rows: Integers) -> list[Integers]:
    """The numbers of the rows that are equal to each other, for each distinct row."""
    rows = np.ascontiguousarray(rows)
    words = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    group = np.unique(words, return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group))[:-1])
