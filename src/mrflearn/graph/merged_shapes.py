"""Local problems of rare shapes put in with those of a common one, so that they run together.

The cliques at the border of a lattice have many shapes, and each shape costs a few milliseconds
however few cliques have it.  A problem fits into any larger shape with the same clique:

- a place that it has no variable for is taken by a copy of another neighbour, and every term on
  that place is absent (held at zero).  Given the neighbours, a copy of one says nothing new; in a
  joint field a variable without terms is independent of the others;
- terms that it does not have are absent, and terms that the larger shape lacks are added to it.

So the answers are those of each shape by itself (tested); only the time differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log

import numpy as np
import torch

from mrflearn.graph.local_shape import LocalShape, Places
from mrflearn.graph.neighbourhood import Neighbourhoods

# Table entries, over all problems, that a merger may add: so much work costs what a shape costs.
PADDING = 1 << 16
SHAPES_KEPT = 1024  # pairs of shapes of which it is known how one fits into the other


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


@lru_cache(maxsize=SHAPES_KEPT)
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


@lru_cache(maxsize=SHAPES_KEPT)
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
