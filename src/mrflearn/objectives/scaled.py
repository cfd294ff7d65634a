"""The same model in other units, so that one step length suits all of its parameters.

Where curvatures are roughly known, dividing each parameter by its natural size (one over the root
of its curvature) saves a quasi-Newton method most of the iterations it would spend on learning it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.models.parameters import Layout, Model
from mrflearn.objectives.objective import Loss
from mrflearn.objectives.penalties import LaidPenalty

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

    def laid_on(self, layout: Layout, like: Float[Tensor, "p"]) -> LaidPenalty:
        """w = size * z makes strength * w^2 into (strength * size^2) * z^2."""
        parts = [self.strengths[name] * self.sizes[name].square() for name in layout.names]
        return LaidPenalty(l2=torch.cat([part.reshape(-1) for part in parts]).to(like))
