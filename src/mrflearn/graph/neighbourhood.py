"""The auxiliary model of each clique (LAP): its neighbourhood and what it inherits.

Summing out a connected set of variables joins all variables that it touches in one new clique.  So
the structure of the marginal over a neighbourhood follows from the connected components of the rest
of the graph.  They are looked for close by first, for all neighbourhoods at once: on a lattice the
rest is one piece, and that shows within a few steps.

A_q holds the variables of clique q and all that share a clique with one of them.  Everything is
done for thousands of cliques at a time; neighbours are put in an order (states, which variables of
the clique they meet, number) under which the cliques of a lattice have few shapes.

The cliques at the border of a lattice have many shapes, and each shape costs a few milliseconds
however few cliques have it.  A problem fits into any larger shape with the same clique:

- a place that it has no variable for is taken by a copy of another neighbour, and every term on
  that place is absent (held at zero).  Given the neighbours, a copy of one says nothing new; in a
  joint field a variable without terms is independent of the others;
- terms that it does not have are absent, and terms that the larger shape lacks are added to it.

So the answers are those of each shape by itself (tested); only the time differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import log
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import (
    FactorGraph,
    Incidence,
    Integers,
    crowding,
    distinct_rows,
    incidence,
)
from mrflearn.graph.local_shape import (
    LocalShape,
    Places,
    given_last,
    largest_free,
    places_of,
    subsets_of,
)

# What a marginal field inherits from the variables that were summed out.


# How many variables may be visited, in all, to tell apart pieces that do not meet close by.  Pieces
# that are not told apart are taken as one, which adds terms and keeps the estimate consistent
# [Mizrahi 2014, after Proposition 4].
VISITS = 20_000_000
LEAST_VISITS = 64


def inherited_cliques(known: Incidence, inside: Integers) -> Integers:
    """For each neighbourhood (q, n) the cliques (q, k) that the outside leaves, as bit masks.

    Bit i stands for the variable in column i; rows are padded with 0.
    """
    near = _Near.around(known, inside)
    labels = near.components()
    masks, is_open = near.summary(labels)
    unsettled = np.nonzero(is_open.sum(axis=1) > 1)[0]
    reach = max(LEAST_VISITS, VISITS // max(1, len(unsettled)))
    for row in unsettled:
        _settle(known, near, labels[row], masks[row], is_open[row], int(row), reach)
    masks = -np.sort(-masks, axis=1)
    return masks[:, : int((masks > 0).sum(axis=1).max(initial=0))]


@dataclass(frozen=True, eq=False)
class _Near:
    """The variables outside each neighbourhood, up to two steps away from it."""

    inside: Integers  # (q, n) padded
    ball: Integers  # (q, b) padded, rows ascending
    links: Integers  # (q, b, d) places of each one's neighbours in the ball; b where there is none
    touches: Integers  # (q, b) bit mask: which of the inside it is joined to
    leads_away: NDArray[np.bool_]  # (q, b) joined to something neither inside nor in the ball

    @classmethod
    def around(cls, known: Incidence, inside: Integers) -> _Near:
        none, count = known.variables, len(inside)
        ball = np.zeros((count, 0), dtype=np.int64)
        frontier = inside
        for _ in range(2):
            reached = known.neighbours_of[frontier].reshape(count, -1)
            joined = np.concatenate([ball, reached], axis=1)
            joined[_position(inside, joined, none) >= 0] = none
            ball = frontier = distinct_rows(joined, none)
        beyond = known.neighbours_of[ball]
        flat = beyond.reshape(count, -1)
        at = _position(ball, flat, none).reshape(beyond.shape)
        bit = _position(inside, flat, none).reshape(beyond.shape)
        touches = np.bitwise_or.reduce(np.where(bit >= 0, 1 << np.maximum(bit, 0), 0), axis=2)
        away = ((beyond < none) & (at < 0) & (bit < 0)).any(axis=2)
        links = np.where(at < 0, ball.shape[1], at)
        return cls(inside, ball, links, touches.astype(np.int64), np.asarray(away))

    def components(self) -> Integers:
        """A label for every variable of the ball: the first place that it is connected to."""
        count, width = self.ball.shape
        labels = np.tile(np.arange(width + 1), (count, 1))
        rows = np.arange(count)[:, None, None]
        while True:
            least = np.minimum(labels[:, :-1], labels[rows, self.links].min(axis=2, initial=width))
            # Following labels of labels halves the way at each turn.
            least = np.take_along_axis(least, least, axis=1)
            if np.array_equal(least, labels[:, :-1]):
                return least
            labels[:, :-1] = least

    def summary(self, labels: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """What each component touches inside, and whether it goes on beyond the ball."""
        masks = np.zeros_like(labels)
        rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)
        np.bitwise_or.at(masks, (rows, labels), self.touches)
        is_open = np.zeros(labels.shape, dtype=bool)
        np.logical_or.at(is_open, (rows, labels), self.leads_away)
        return masks, is_open


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


def _settle(
    known: Incidence,
    near: _Near,
    labels: Integers,
    masks: Integers,
    is_open: NDArray[np.bool_],
    row: int,
    reach: int,
) -> None:
    """Merges, in `masks`, the open components of one row that meet farther away."""
    none = known.variables
    blocked = set(near.inside[row].tolist()) | {none}
    home = {int(v): int(k) for v, k in zip(near.ball[row], labels, strict=True) if v < none}
    waiting = np.nonzero(is_open)[0].tolist()
    visits = reach
    while len(waiting) > 1 and visits > 0:
        first = waiting.pop(0)
        queue = deque(v for v, k in home.items() if k == first)
        seen = blocked | set(queue)
        while queue and waiting and visits > 0:
            for other in known.neighbours_of[queue.popleft()].tolist():
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
                    visits -= 1
                    met = home.get(other, first)
                    if met in waiting:
                        waiting.remove(met)
                        masks[first] |= masks[met]
                        masks[met] = 0
        if queue and waiting:  # the search ended early: take the rest as one with it
            waiting.append(first)
    for left in waiting[1:] if visits <= 0 else ():
        masks[waiting[0]] |= masks[left]
        masks[left] = 0


# The 1-neighbourhoods of all cliques, grouped by shape [Mizrahi 2014, section 3].


Auxiliary = Literal["exact", "dense", "pairwise"]
CLIQUES_AT_ONCE = 8192
SHAPES_KEPT = 512  # that are not read again; a lattice has some tens
MOST_VARIABLES = 60  # of one neighbourhood; sets of them are numbers of 64 bits
MOST_FACTORS = 48  # at one variable; more would make any table over a neighbourhood hopeless


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Cliques whose local problems have one shape.

    `scope` names the variables of each neighbourhood, `factors` the touching cliques by their
    number in the whole graph (groups one after the other); the first is the clique itself.
    Problems that were laid into a larger shape (`graph.merged_shapes`) say which of its terms are
    `absent`, held at zero, and the `surplus` in log Z that comes from places they do not use.
    """

    shape: LocalShape
    scope: Int[Tensor, "q n"]
    factors: Int[Tensor, "q t"]
    absent: Bool[Tensor, "p q"] | None = None
    surplus: Float[Tensor, " q"] | None = None

    def __len__(self) -> int:
        return self.scope.shape[0]

    def part(self, start: int, stop: int) -> Neighbourhoods:
        """Some of the cliques, in memory of their own: with a view the whole would travel."""
        absent = None if self.absent is None else self.absent[:, start:stop].clone()
        return Neighbourhoods(
            self.shape,
            self.scope[start:stop].clone(),
            self.factors[start:stop].clone(),
            absent if absent is not None and bool(absent.any()) else None,
            None if self.surplus is None else self.surplus[start:stop].clone(),
        )


def too_crowded(graph: FactorGraph, most: int = MOST_FACTORS) -> str | None:
    """Why neighbourhoods cannot be tabulated here, where a variable is in too many cliques."""
    counts = crowding(graph)
    if not len(counts) or counts.max() <= most:
        return None
    variable = int(counts.argmax())
    return (
        f"variable {variable} is in {int(counts[variable])} cliques, so the joint states around it "
        f"cannot be counted (at most {most} can be handled)"
    )


def log2_joint_states(graph: FactorGraph, extra: int = 0) -> float:
    """The logarithm of the joint states of the largest neighbourhood of a clique.

    `extra`: states that every variable has besides its own.
    """
    rows, columns, count = [], [], 0
    for group in graph.groups:
        scope = group.scope.cpu().numpy()
        rows.append(np.repeat(np.arange(count, count + len(scope)), scope.shape[1]))
        columns.append(scope.ravel())
        count += len(scope)
    if not count:
        return 0.0
    places = np.concatenate(rows), np.concatenate(columns)
    shape = count, graph.variables
    members = csr_array((np.ones(len(places[0]), dtype=np.float32), places), shape=shape)
    around = members @ (members.T @ members)  # variables that share a clique with a member
    around.data[:] = 1.0
    sizes = np.log2(graph.states.cpu().numpy() + extra)
    return float((around @ sizes).max())


def neighbourhoods(
    graph: FactorGraph, auxiliary: Auxiliary = "exact", groups: tuple[int, ...] | None = None
) -> list[Neighbourhoods]:
    """The local problems of every clique of the given groups (default: of all of them)."""
    known = _known(graph)
    targets: list[tuple[Integers | None, Integers]] = []
    for index in range(len(graph.groups)) if groups is None else groups:
        numbers = np.arange(known.starts[index], known.starts[index + 1])
        targets.append((numbers, known.scopes[numbers, : graph.groups[index].arity]))
    return _gathered(known, targets, auxiliary, graph.device)


def blankets(graph: FactorGraph) -> list[Neighbourhoods]:
    """Every variable that is in a clique, with its neighbours: what pseudolikelihood looks at."""
    known = _known(graph)
    own = np.nonzero(crowding(graph))[0][:, None]
    return _gathered(known, [(None, own)], "dense", graph.device)


def _known(graph: FactorGraph) -> Incidence:
    reason = too_crowded(graph)
    if reason:
        raise GraphError(f"{reason}. Use pseudolikelihood (the estimator 'pl') on such a graph.")
    return incidence(graph)


def _gathered(
    known: Incidence,
    targets: list[tuple[Integers | None, Integers]],
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
    none = np.zeros((len(own), 0), dtype=np.int64)
    parts = (
        known.states[local],
        places.reshape(len(own), -1),
        none if auxiliary == "dense" else _inside(known, local, own.shape[1]),
        inherited_cliques(known, local) if auxiliary == "exact" else none,
    )
    ends = tuple(np.cumsum([part.shape[1] for part in parts])[:-1].tolist())
    for members, row in _grouped(np.concatenate(parts, axis=1)):
        written = _Written(auxiliary, own.shape[1], known.scopes.shape[1], ends, row.tobytes())
        order, shape = _read_shape(written)
        yield shape, local[members][:, order], touching[members, : len(shape.touching)]


class _Written(NamedTuple):
    """All that makes a shape, as numbers in a row: states, places of cliques, sets inside, rest."""

    auxiliary: Auxiliary
    own: int
    width: int  # of the largest clique
    ends: tuple[int, int, int]  # of the parts of the row
    row: bytes


@lru_cache(maxsize=SHAPES_KEPT)
def _read_shape(written: _Written) -> tuple[list[int], LocalShape]:
    """The shape that was written down, and the order of its places (`given_last`)."""
    numbers = np.frombuffer(written.row, dtype=np.int64).tolist()
    (one, two, three), width = written.ends, written.width
    sizes = tuple(size for size in numbers[:one] if size > 0)
    rows = (numbers[start : start + width] for start in range(one, two, width))
    scopes = tuple(s for s in (tuple(p for p in row if p >= 0) for row in rows) if s)
    others, inherited = range(written.own, len(sizes)), numbers[three:]
    free = largest_free(sizes, inherited)
    inside = _inside_sets(written.auxiliary, others, numbers[two:three], inherited, free)
    return given_last(LocalShape(sizes, written.own, scopes, inside), free)


def _local(
    known: Incidence, own: Integers, cliques: Integers | None
) -> tuple[Integers, Integers, Integers]:
    """Variables of each neighbourhood, factors that touch it, and where these stand in it.

    Without cliques, every touching factor keeps the order of its own scope, so that its table can
    be laid in place; with them only the clique itself has to, and more neighbourhoods are alike.
    """
    touching = distinct_rows(known.factors_of[own].reshape(len(own), -1), known.factors)
    local = np.concatenate([own, _neighbours(known, own, touching)], axis=1)
    if local.shape[1] > MOST_VARIABLES:
        widest = int((local < known.variables).sum(axis=1).argmax())
        raise GraphError(
            f"the neighbourhood of {own[widest].tolist()} has {local.shape[1]} variables, too many "
            "to count their joint states. Use pseudolikelihood (the estimator 'pl')."
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
        row = int(np.nonzero(twice.any(axis=1))[0][0])
        scope = known.scopes[cliques[row]]
        raise GraphError(
            f"near clique {scope[scope < known.variables].tolist()} two cliques are over the same "
            "variables, so no data can tell their tables apart. Merge them into one."
        )
    return order


def _inside(known: Incidence, local: Integers, arity: int) -> Integers:
    """The factors of the graph among a neighbourhood's other variables, as bit masks."""
    others = local[:, arity:]
    if not others.shape[1]:
        return np.zeros((len(local), 0), dtype=np.int64)
    near = distinct_rows(known.factors_of[others].reshape(len(local), -1), known.factors)
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


def _grouped(rows: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Each distinct row, with the numbers of the rows equal to it."""
    rows = np.ascontiguousarray(rows)
    words = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(words, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))
    for members, where in zip(np.split(order, ends[:-1]), first, strict=True):
        yield members, rows[where]


# Local problems of rare shapes put in with those of a common one, so that they run together.


# Table entries, over all problems, that a merger may add: so much work costs what a shape costs.
PADDING = 1 << 16
MERGED_SHAPES_KEPT = 1024  # pairs of shapes of which it is known how one fits into the other


@dataclass(frozen=True, eq=False)
class _Guest:
    """Problems to be laid into a larger shape: `places[i]` is where their variable i goes."""

    problems: Neighbourhoods
    places: Places


@dataclass(eq=False)
class _Host:
    """A shape, and all problems that were laid into it so far."""

    shape: LocalShape
    guests: list[_Guest]
    problems: int


def merged(problems: Sequence[Neighbourhoods]) -> list[Neighbourhoods]:
    """The same problems under fewer shapes; only their own cliques are named in `factors`."""
    hosts: list[_Host] = []
    for hood in sorted(problems, key=lambda h: (-h.shape.cells, -len(h))):
        if not any(_took_in(host, hood) for host in hosts):
            places = tuple(range(len(hood.shape.sizes)))
            hosts.append(_Host(hood.shape, [_Guest(hood, places)], len(hood)))
    return [
        host.guests[0].problems if len(host.guests) == 1 else _joined(host.shape, host.guests)
        for host in hosts
    ]


def _took_in(host: _Host, hood: Neighbourhoods) -> bool:
    """Whether these problems fit into the host at little cost; if so, they are its guests now."""
    places = _fit(hood.shape, host.shape)
    if places is None:
        return False
    wider, together = _widened(host.shape, hood.shape, places), host.problems + len(hood)
    before = host.shape.work * host.problems + hood.shape.work * len(hood)
    if wider.work * together - before > PADDING:
        return False
    host.shape, host.problems = wider, together
    host.guests.append(_Guest(hood, places))
    return True


@lru_cache(maxsize=MERGED_SHAPES_KEPT)
def _fit(small: LocalShape, large: LocalShape) -> Places | None:
    """Where the variables of a shape go in a larger one, in order; None where they do not fit."""
    own = small.own
    alike = own == large.own and small.sizes[:own] == large.sizes[:own]
    if not alike or (small.inside is None) != (large.inside is None):
        return None
    wanted: Sequence[object] = small.neighbours
    offered: Sequence[object] = large.neighbours
    if small.given:  # such shapes are rare: a few more terms cost less than one more shape
        wanted, offered = small.sizes[own:], large.sizes[own:]
    at = _first_copied(small) - own  # up to there both must be the same
    if bool(small.given) != bool(large.given) or wanted[:at] != offered[:at]:
        return None
    begin = own + at
    if _first_copied(large) != begin or not {*large.sizes[begin:]} <= {*small.sizes[begin:]}:
        return None  # nothing to copy into some place
    places = list(range(own + at))
    for neighbour in wanted[at:]:
        while at < len(offered) and offered[at] != neighbour:
            at += 1
        if at == len(offered):
            return None
        places.append(own + at)
        at += 1
    return tuple(places)


def _first_copied(shape: LocalShape) -> int:
    """The first place whose variable may be copied: of those given, where there are any."""
    return shape.summed if shape.given else shape.own


@lru_cache(maxsize=MERGED_SHAPES_KEPT)
def _widened(large: LocalShape, small: LocalShape, places: Places) -> LocalShape:
    """The larger shape with all terms of the smaller one."""
    touching = dict.fromkeys([*large.touching, *_moved(small.touching, places)])
    inside = dict.fromkeys([*(large.inside or ()), *_moved(small.inside or (), places)])
    if len(touching) == len(large.touching) and len(inside) == len(large.inside or ()):
        return large
    every = None if large.inside is None else tuple(inside)
    return replace(large, touching=tuple(touching), inside=every)


def _moved(sets: Sequence[Places], places: Places) -> list[Places]:
    # Places ascend in every set, before and after: equal sets are equal tuples.
    return [tuple([places[place] for place in scope]) for scope in sets]


def _joined(shape: LocalShape, guests: Sequence[_Guest]) -> Neighbourhoods:
    """All guests in one shape."""
    scopes = [guest.problems.scope[:, _sources(shape, guest)] for guest in guests]
    counts = torch.tensor([len(guest.problems) for guest in guests])
    sets = shape.touching + (shape.inside or ())
    lacking = np.array([_lacking(sets, guest) for guest in guests])
    absent = torch.from_numpy(lacking.repeat([shape.free(places) for places in sets], axis=1).T)
    surplus = torch.tensor([_surplus(shape, guest) for guest in guests], dtype=torch.float64)
    device = scopes[0].device
    return Neighbourhoods(
        shape,
        torch.cat(scopes),
        torch.cat([guest.problems.factors[:, :1] for guest in guests]),
        absent.repeat_interleave(counts, dim=1).to(device),
        surplus.repeat_interleave(counts).to(device),
    )


def _sources(shape: LocalShape, guest: _Guest) -> list[int]:
    """Which of the guest's variables stands at each place, its own or a copy of a neighbour."""
    sizes, first = guest.problems.shape.sizes, _first_copied(guest.problems.shape)
    place_of = {place: variable for variable, place in enumerate(guest.places)}
    return [
        place_of[place] if place in place_of else sizes.index(size, first)
        for place, size in enumerate(shape.sizes)
    ]


def _lacking(sets: Sequence[Places], guest: _Guest) -> list[bool]:
    """Which of these sets of places have no term in the guest."""
    small = guest.problems.shape
    present = {*_moved(small.touching + (small.inside or ()), guest.places)}
    return [places not in present for places in sets]


def _surplus(shape: LocalShape, guest: _Guest) -> float:
    """What copies add to log Z of a joint field, where they are free to be in any state."""
    copied = shape.cells // guest.problems.shape.cells
    return 0.0 if shape.inside is None or shape.given else log(copied)
