"""The 1-neighbourhoods of all cliques, grouped by shape [Mizrahi 2014, section 3].

A_q holds the variables of clique q and all that share a clique with one of them.  Everything is
done for thousands of cliques at a time; neighbours are put in an order (states, which variables of
the clique they meet, number) under which the cliques of a lattice have few shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.incidence import Incidence, Integers, crowding, distinct_rows, incidence
from mrflearn.graph.local_shape import LocalShape, given_last, largest_free, places_of, subsets_of
from mrflearn.graph.outside import inherited_cliques

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
    surplus: Float[Tensor, "q"] | None = None

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
