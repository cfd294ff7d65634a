"""A function of weights some of which are the same, as a function of the free ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.objectives.distributed import Distributed
from mrflearn.objectives.field_likelihood import FieldLikelihood
from mrflearn.objectives.field_objectives import ValueAndGradient


@final
@dataclass(frozen=True, eq=False)
class Tied:
    """Weight i is free weight `number[i]`."""

    function: ValueAndGradient
    number: Int64[Tensor, "p"]

    def __call__(self, free: Float[Tensor, "q"]) -> tuple[Tensor, Tensor]:
        value, gradient = self.function(free[self.number])
        return value, torch.zeros_like(free).index_add_(0, self.number, gradient)

    @property
    def branches(self) -> bool:
        """Whether the value may depend on what it began with."""
        own = self.function
        return isinstance(own, FieldLikelihood | Distributed) and own.branches

    def stay(self) -> None:
        """From now on evaluations begin with what the last one left."""
        if isinstance(self.function, FieldLikelihood | Distributed):
            self.function.stay()
