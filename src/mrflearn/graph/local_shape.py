"""Shapes that neighbourhoods share: what the local problems of many cliques have in common.

A clique's neighbourhood is numbered from 0: the clique's own variables first, in its own order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

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
        ends = np.cumsum([self.free(places) for places in self.touching]).tolist()
        starts = [0, *ends[:-1]]
        return tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))

    @cached_property
    def work(self) -> int:
        """The entries of the largest table that one problem of this shape needs."""
        sets = self.touching + (self.inside or ())
        terms = sum([self.free(places) for places in sets])
        if self.contexts == 1:
            return max(self.cells, terms**2)
        summed = self.summed
        parts_of = {tuple([place for place in places if place < summed]) for places in sets}
        parts = sum([self.free(places) for places in parts_of])
        return max(self.cells, terms**2, parts * (parts + 1) // 2 * self.contexts)

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
        number, clash = _joined(self.terms, self.strides)
        return np.where(clash, self.cells, number)

    @cached_property
    def contexts(self) -> int:
        """The joint states of the variables that are given, not summed."""
        return prod(self.sizes[self.summed :])

    @cached_property
    def summed_parts(self) -> NDArray[np.int64]:
        """The distinct parts of terms on the variables that are summed, by number, ascending."""
        return np.unique(self.index // self.contexts)

    @cached_property
    def context_joins(self) -> NDArray[np.int64]:
        """For every two terms: pair of summed parts times `contexts` plus join of the contexts.

        Pairs (i <= j) of `summed_parts` are numbered row by row; one past the last number of all
        where the contexts exclude each other.
        """
        part = np.searchsorted(self.summed_parts, self.index // self.contexts)
        low, high = np.minimum.outer(part, part), np.maximum.outer(part, part)
        count = len(self.summed_parts)
        pair = low * count - low * (low - 1) // 2 + high - low
        joined, clash = _joined(self.terms[:, self.summed :], self.strides[self.summed :])
        number = pair * self.contexts + joined
        return np.where(clash, count * (count + 1) // 2 * self.contexts, number)


def _joined(
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
    found: set[Places] = set()
    for mask in masks:
        if not mask & ~without:
            continue
        places = places_of(mask)
        for size in range(1, len(places) + 1):
            found.update(combinations(places, size))
    kept = set(places_of(without))
    return {places for places in found if not kept.issuperset(places)} if kept else found


def places_of(mask: int) -> Places:
    """The places of the bits that are set, ascending."""
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
