"""What a shape of local problems says about sums over joint states, laid out on one device.

Made once a shape and device: a step of Newton's method on few problems takes a fraction of a
millisecond, of which looking these up again would be a good part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.graph.local_products import design_matrix, pair_products
from mrflearn.graph.local_shape import LocalShape
from mrflearn.kernels.reference_terms import moments, scores_of_terms

SHAPES_KEPT = 64


@dataclass(frozen=True, eq=False)
class LaidPair:
    """Two parts of terms, their join, and where both count (`graph.local_products`)."""

    first: int
    second: int
    both: int | None
    contexts: Float[Tensor, "r y"]


@dataclass(frozen=True, eq=False)
class LocalTables:
    """Scores of joint states from terms and back; and which products of terms are which.

    Small shapes have a `design` matrix (and its mean over the states of each context, `even`), and
    small conditional ones `pairs` with the `rows` of their products; the numbers of joins serve all
    others (see `LocalShape`).
    """

    shape: LocalShape
    index: Int[Tensor, "p"]
    joins: Int[Tensor, "p*p"]
    design: Float[Tensor, "x p"] | None
    even: Float[Tensor, "p y"] | None
    pairs: tuple[LaidPair, ...] | None
    rows: Int[Tensor, "p*p"] | None

    def scores(self, terms: Float[Tensor, "p q"]) -> Float[Tensor, "x q"]:
        """The score of every joint state."""
        if self.design is not None:
            return self.design @ terms
        table = terms.new_zeros(self.shape.cells, terms.shape[1])
        return scores_of_terms(table.index_add_(0, self.index, terms), self.shape.sizes)

    def moments(self, masses: Float[Tensor, "x q"]) -> Float[Tensor, "p q"]:
        """The mass of all joint states in which each term counts."""
        if self.design is not None:
            return self.design.T @ masses
        return moments(masses, self.shape.sizes)[self.index]

    def even_moments(self, context: Float[Tensor, "y q"]) -> Float[Tensor, "p q"]:
        """The same for contexts of these masses, all joint states alike within each."""
        states = self.shape.cells // self.shape.contexts
        if self.even is not None:
            return self.even @ context
        return self.moments((context / states).repeat(states, 1))


@lru_cache(maxsize=SHAPES_KEPT)
@torch.inference_mode(False)  # such tensors serve everywhere, also where gradients are followed
def local_tables(shape: LocalShape, device: torch.device) -> LocalTables:
    """The tables of a shape."""

    def laid(numbers: NDArray[Any]) -> Tensor:
        return torch.from_numpy(numbers).to(device)

    design, even = design_matrix(shape), None
    if design is not None:
        even = design.reshape(-1, shape.contexts, design.shape[1]).mean(axis=0).T.copy()
    products = pair_products(shape) if shape.contexts > 1 else None
    pairs = rows = None
    if products is not None:
        rows = laid(products.rows)
        pairs = tuple(
            LaidPair(pair.first, pair.second, pair.both, laid(pair.contexts))
            for pair in products.pairs
        )
    return LocalTables(
        shape,
        laid(shape.index),
        laid(shape.joins.ravel()),
        None if design is None else laid(design),
        None if even is None else laid(even),
        pairs,
        rows,
    )
