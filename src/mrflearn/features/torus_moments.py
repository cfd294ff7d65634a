"""The moments of an image, or of any lattice of states, wrapped into a torus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mrflearn.errors import DataError
from mrflearn.features.moments import Counts, Moments, Offset, PairCounts


def lattice_moments(
    image: ArrayLike, offsets: Sequence[Offset] = ((0, 1), (1, 0)), *, states: int | None = None
) -> Moments:
    """Moments of a torus of states (grey levels), of any number of dimensions.

    A pair at offset (i, j) is a position and the one i rows down and j columns to the right.
    """
    grid = np.asarray(image)
    if grid.size == 0 or not np.issubdtype(grid.dtype, np.integer) or grid.min() < 0:
        raise DataError(
            f"an image of states needs whole numbers from 0, at least one; this one has the shape "
            f"{grid.shape} and the type {grid.dtype}. Round grey levels to a few bins first."
        )
    grid = grid.astype(np.int64)
    states = int(grid.max()) + 1 if states is None else states
    if grid.max() >= states:
        raise DataError(f"the image holds the state {grid.max()}; states={states} ends before it.")
    none = np.zeros(0, np.int64)
    return Moments(
        offsets=tuple(offsets),
        unary=np.bincount(grid.ravel(), minlength=states),
        pairs=tuple(_lattice_pairs(grid, offset, states) for offset in offsets),
        lengths=none,
        length_counts=none,
        separator=None,
    )


def _lattice_pairs(grid: Counts, offset: Offset, states: int) -> PairCounts:
    if len(offset) != grid.ndim:
        raise DataError(
            f"offset {offset} has {len(offset)} numbers, but the image has {grid.ndim} dimensions."
        )
    back = tuple(-step for step in offset)
    right = np.roll(grid, back, axis=tuple(range(grid.ndim)))
    codes, count = np.unique(grid * states + right, return_counts=True)
    return PairCounts.from_codes(codes, count.astype(np.int64), states)
