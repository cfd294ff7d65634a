"""Small shapes as matrices: sums over joint states become products that a processor is best at.

Transforms (`kernels.reference_terms`) take fewer steps, and are all that a large neighbourhood can
afford; up to some thousand entries a matrix product is several times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.graph.local_shape import LocalShape

LARGEST = 1 << 18  # entries of one matrix


@dataclass(frozen=True, eq=False)
class PairOfParts:
    """Two parts that terms have in the clique, and the contexts of the terms that have them.

    Parts go by their number among the clique's joint states; `both` is None where they exclude
    each other.
    """

    first: int
    second: int
    both: int | None
    contexts: NDArray[np.float64]  # (r, y) 1 where both terms count, one row for every two terms


@dataclass(frozen=True, eq=False)
class PairProducts:
    """All pairs of parts; `rows` numbers, for every two terms, the rows of all pairs together."""

    pairs: tuple[PairOfParts, ...]
    rows: NDArray[np.int64]  # (p * p)


def design_matrix(shape: LocalShape) -> NDArray[np.float64] | None:
    """(x, p): 1 where a term counts in a joint state; None where that would be too large."""
    if shape.cells * len(shape.terms) > LARGEST:
        return None
    return _counting(shape.terms, shape.sizes)


def pair_products(shape: LocalShape) -> PairProducts | None:
    """For a field that is conditional on its contexts; None where that would be too large."""
    count, own = len(shape.terms), shape.summed
    if count * count * shape.contexts > 2 * LARGEST:
        return None
    counts = _counting(shape.terms[:, own:], shape.sizes[own:]).T
    part = shape.index // shape.contexts
    members = {int(number): np.nonzero(part == number)[0] for number in shape.summed_parts}
    rows = np.zeros((count, count), dtype=np.int64)
    pairs, begin = [], 0
    for i, j in combinations_with_replacement(members, 2):
        here = [(a, b) for a in members[i] for b in members[j] if i < j or a <= b]
        one, other = np.array(here).T
        rows[one, other] = rows[other, one] = begin + np.arange(len(here))
        begin += len(here)
        pairs.append(PairOfParts(i, j, _join(shape, i, j), counts[one] * counts[other]))
    return PairProducts(tuple(pairs), rows.ravel())


def _join(shape: LocalShape, one: int, other: int) -> int | None:
    """The number of the joint state of the clique that has both parts."""
    sizes = shape.sizes[: shape.summed]
    a, b = (np.array(np.unravel_index(part, sizes)) for part in (one, other))
    if bool(((a != b) & (a > 0) & (b > 0)).any()):
        return None
    return int(np.ravel_multi_index(tuple(np.maximum(a, b)), sizes))


def _counting(terms: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """1 where a term (column) counts in a joint state (row): it is absent there or agrees."""
    states = np.indices(sizes).reshape(len(sizes), -1)
    counts: NDArray[Any] = np.ones((states.shape[1], len(terms)), dtype=bool)
    for place in range(len(sizes)):
        term = terms[None, :, place]
        counts &= (term == 0) | (term == states[place][:, None])
    return counts.astype(np.float64)
