"""L1 and L2 regularisation, and parameters in scaled units.

    L1: strength * sum |w|          L2: strength * sum w^2          (no factor of one half)

So `ElasticNet(l1=c1, l2=c2)` is CRFsuite's c1 and c2; a Gaussian prior of variance v is
L2(1 / (2 v)), and scikit-learn's C is L2(1 / (2 C)).

Where curvatures are roughly known, dividing each parameter by its natural size (one over the root
of its curvature) saves a quasi-Newton method most of the iterations it would spend on learning it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout, Model
from mrflearn.objectives.objective import Loss

# What large weights cost, added once to the summed objective by training.


Strength = float | Tensor  # one number for all weights, or one a weight


@final
@dataclass(frozen=True, eq=False)
class LaidPenalty:
    """A penalty laid on one flat vector: `l1` and `l2` are its strengths there."""

    l1: Strength = 0.0
    l2: Strength = 0.0

    @property
    def has_l1(self) -> bool:
        return isinstance(self.l1, Tensor) or self.l1 > 0

    @property
    def has_l2(self) -> bool:
        return isinstance(self.l2, Tensor) or self.l2 > 0

    def rough(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """The part that has a corner at zero: L1."""
        if isinstance(self.l1, Tensor):
            return (vector.abs() * self.l1).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, 1, dtype=torch.float64)
        return self.l1 * length

    def smooth(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """The part that has a gradient everywhere: L2."""
        if isinstance(self.l2, Tensor):
            return (vector.square() * self.l2).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float64)
        return self.l2 * length.square()

    def smooth_gradient(
        self, vector: Float[Tensor, " p"], onto: Float[Tensor, " p"], share: float = 1.0
    ) -> Float[Tensor, " p"]:
        """A new vector: `onto` plus `share` times the gradient of the smooth part."""
        if isinstance(self.l2, Tensor):
            return onto.addcmul(vector, self.l2, value=2 * share)
        return onto.add(vector, alpha=2 * self.l2 * share)


class Penalty(Protocol):
    """A price on weights that can be laid on any flat vector."""

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        """Its strengths for the parameters of `layout`, of the type and device of `like`."""


@final
@dataclass(frozen=True)
class NoPenalty:
    """Weights cost nothing."""

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:  # noqa: ARG002
        return LaidPenalty()


@final
@dataclass(frozen=True)
class L2:
    """strength * sum w^2 over all parameters but those named in `exclude`."""

    strength: float
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("L2", self.strength, self.exclude)

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        return LaidPenalty(l2=_lay(self.strength, self.exclude, layout, like))


@final
@dataclass(frozen=True)
class L1:
    """strength * sum |w| over all parameters but those named in `exclude`; for OWL-QN."""

    strength: float
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("L1", self.strength, self.exclude)

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        return LaidPenalty(l1=_lay(self.strength, self.exclude, layout, like))


@final
@dataclass(frozen=True)
class ElasticNet:
    """l1 * sum |w| + l2 * sum w^2 over all parameters but those named in `exclude`."""

    l1: float
    l2: float
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("ElasticNet", self.l1, self.exclude)
        _check("ElasticNet", self.l2, self.exclude)

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        return LaidPenalty(
            l1=_lay(self.l1, self.exclude, layout, like),
            l2=_lay(self.l2, self.exclude, layout, like),
        )


def _check(name: str, strength: float, exclude: object) -> None:
    if not (math.isfinite(strength) and strength >= 0):
        raise TrainingError(f"{name}: a strength of {strength} is no price; 0 or more is.")
    if isinstance(exclude, str):
        raise TrainingError(f"{name}: exclude takes names, as in exclude=('{exclude}',).")


def _lay(strength: float, exclude: tuple[str, ...], layout: Layout, like: Tensor) -> Strength:
    left_out = layout.covers(exclude)
    if strength == 0 or not bool(left_out.any()):
        return float(strength)
    # Made entry by entry only where needed: one number costs no memory traffic.
    return like.new_full((layout.size,), strength).masked_fill_(left_out.to(like.device), 0)


# The same model in other units, so that one step length suits all of its parameters.


M = TypeVar("M", bound=Model)


@dataclass(frozen=True, eq=False)
class ScaledModel(Generic[M]):
    """A model whose parameters are read and set divided by `sizes`."""

    model: M
    sizes: Mapping[str, Tensor]

    def parameters(self) -> dict[str, Tensor]:
        return {name: value / self.sizes[name] for name, value in self.model.parameters().items()}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> ScaledModel[M]:
        natural = {name: value * self.sizes[name] for name, value in parameters.items()}
        return ScaledModel(self.model.with_parameters(natural), self.sizes)


@dataclass(frozen=True)
class ScaledObjective:
    """An objective of the model within."""

    objective: Loss

    def __call__(self, model: ScaledModel[Any], batch: Any) -> Tensor:
        """Nats, as the objective has them: units do not matter to it."""
        return self.objective(model.model, batch)


@dataclass(frozen=True, eq=False)
class ScaledL2:
    """sum over parameters of strength * w^2 in natural units; one strength a name."""

    strengths: Mapping[str, float]
    sizes: Mapping[str, Tensor]

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        """w = size * z makes strength * w^2 into (strength * size^2) * z^2."""
        parts = [self.strengths[name] * self.sizes[name].square() for name in layout.names]
        return LaidPenalty(l2=torch.cat([part.reshape(-1) for part in parts]).to(like))
