"""L1 and L2 regularisation.

    l1 * sum |w|  +  l2 * sum w^2          (no factor of one half)

So `Penalty(l1=c1, l2=c2)` is CRFsuite's c1 and c2; a Gaussian prior of variance v has
l2 = 1 / (2 v), and scikit-learn's C is l2 = 1 / (2 C).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout

Strength = float | Mapping[str, float]  # one for all parameters, or by name (else 0)


@final
@dataclass(frozen=True)
class Penalty:
    """Strengths of L1 and L2: a number for all parameters, or a mapping from names to numbers.

    Parameters that a mapping does not name are not penalised.  Training adds the penalty once to
    the summed objective.
    """

    l1: Strength = 0.0
    l2: Strength = 0.0

    def __post_init__(self) -> None:
        for name, strength in (("l1", self.l1), ("l2", self.l2)):
            given = strength.values() if isinstance(strength, Mapping) else [strength]
            for own in given:
                if not (math.isfinite(own) and own >= 0):
                    raise TrainingError(f"{name}: a strength must be >= 0; got {own}.")

    def on(self, layout: Layout, like: Float[Tensor, " p"]) -> FlatPenalty:
        """Its strengths for the entries of a flat vector of the type and device of `like`."""
        return FlatPenalty(_flat(self.l1, layout, like), _flat(self.l2, layout, like))


@final
@dataclass(frozen=True, eq=False)
class FlatPenalty:
    """A penalty on one flat vector: one strength for all of its entries, or one for each."""

    l1: float | Float[Tensor, " p"] = 0.0
    l2: float | Float[Tensor, " p"] = 0.0

    @property
    def has_l1(self) -> bool:
        return isinstance(self.l1, Tensor) or self.l1 > 0

    @property
    def has_l2(self) -> bool:
        return isinstance(self.l2, Tensor) or self.l2 > 0

    def l1_value(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """L1, the part with corners."""
        if isinstance(self.l1, Tensor):
            return (vector.abs() * self.l1).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, 1, dtype=torch.float64)
        return self.l1 * length

    def l2_value(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """L2, the smooth part."""
        if isinstance(self.l2, Tensor):
            return (vector.square() * self.l2).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float64)
        return self.l2 * length.square()

    def add_l2_gradient(
        self, vector: Float[Tensor, " p"], gradient: Float[Tensor, " p"], share: float = 1.0
    ) -> Float[Tensor, " p"]:
        """A new vector: `gradient` plus `share` times the gradient of L2."""
        if isinstance(self.l2, Tensor):
            return gradient.addcmul(vector, self.l2, value=2 * share)
        return gradient.add(vector, alpha=2 * self.l2 * share)


def _flat(strength: Strength, layout: Layout, like: Tensor) -> float | Tensor:
    if not isinstance(strength, Mapping):
        return float(strength)
    layout.covers(strength)  # every name must be known
    strengths = [float(strength.get(name, 0.0)) for name in layout.names]
    # Made entry by entry only where needed: one number costs no memory traffic.
    if len(set(strengths)) == 1:
        return strengths[0]
    sizes = torch.tensor(layout.sizes, dtype=torch.int64)
    return torch.tensor(strengths, dtype=like.dtype).repeat_interleave(sizes).to(like.device)
