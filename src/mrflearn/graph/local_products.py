"""Small shapes as matrices: sums over joint states become products that a processor is best at.

Transforms (`kernels.reference_terms`) take fewer steps, and are all that a large neighbourhood can
afford; up to some thousand entries a matrix product is several times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.graph.local_shape import LocalShape

LARGEST = 1 << 18  # entries of one matrix
SHAPES_KEPT = 32  # whose matrices are not made again for every block


@dataclass(frozen=True, eq=False)
class PairProducts:
    """Which contexts count for which two terms, by the pair of their parts in the clique.

    Terms a and b with parts i <= j in the clique meet in pair k = (i, j), in one of its m rows.
    """

    first: NDArray[np.int64]  # (k) the part i, by its number among the clique's joint states
    second: NDArray[np.int64]  # (k) the part j
    both: NDArray[np.int64]  # (k) their join; one past the last state where they exclude each other
    contexts: NDArray[np.float64]  # (k, m, y) 1 where both terms count
    places: NDArray[np.int64]  # (p * p) the row among all k * m of every two terms


@lru_cache(maxsize=SHAPES_KEPT)
def design_matrix(shape: LocalShape) -> NDArray[np.float64] | None:
    """(x, p): 1 where a term counts in a joint state; None where that would be too large."""
    if shape.cells * len(shape.terms) > LARGEST:
        return None
    return _counting(shape.terms, shape.sizes)


@lru_cache(maxsize=SHAPES_KEPT)
def pair_products(shape: LocalShape) -> PairProducts | None:
    """For a field that is conditional on its contexts; None where that would be too large."""
    own = shape.summed
    part = np.searchsorted(shape.summed_parts, shape.index // shape.contexts)
    low, high = np.triu_indices(len(shape.summed_parts))
    members = [np.nonzero(part == i)[0] for i in range(len(shape.summed_parts))]
    combined = [
        [(a, b) for a in members[i] for b in members[j] if i < j or a <= b]
        for i, j in zip(low, high, strict=True)
    ]
    rows = max(len(pairs) for pairs in combined)
    if len(low) * rows * shape.contexts > LARGEST:
        return None
    counts = _counting(shape.terms[:, own:], shape.sizes[own:])
    contexts = np.zeros((len(low), rows, shape.contexts))
    places = np.zeros((len(part), len(part)), dtype=np.int64)
    for k, pairs in enumerate(combined):
        for row, (a, b) in enumerate(pairs):
            contexts[k, row] = counts[:, a] * counts[:, b]
            places[a, b] = places[b, a] = k * rows + row
    numbers = shape.summed_parts
    states = np.stack(np.unravel_index(numbers, shape.sizes[:own]), axis=1)
    one, other = states[low], states[high]
    clash = ((one != other) & (one > 0) & (other > 0)).any(axis=1)
    join = np.ravel_multi_index(tuple(np.maximum(one, other).T), shape.sizes[:own])
    both = np.where(clash, np.prod(shape.sizes[:own]), join)
    return PairProducts(numbers[low], numbers[high], both, contexts, places.ravel())


def _counting(terms: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """1 where a term (column) counts in a joint state (row): it is absent there or agrees."""
    states = np.indices(sizes).reshape(len(sizes), -1)
    counts: NDArray[Any] = np.ones((states.shape[1], len(terms)), dtype=bool)
    for place in range(len(sizes)):
        term = terms[None, :, place]
        counts &= (term == 0) | (term == states[place][:, None])
    return counts.astype(np.float64)
