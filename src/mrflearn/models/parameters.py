"""What every model offers: named parameters that can be read, replaced and laid in one vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from jaxtyping import Float
from torch import Tensor


class Model(Protocol):
    """A frozen record of parameters; `with_parameters` gives a copy that holds others."""

    def parameters(self) -> dict[str, Tensor]: ...

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Self: ...


@dataclass(frozen=True)
class Layout:
    """Where each named parameter lies in one flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor]) -> Layout:
        return cls(tuple(parameters), tuple(value.shape for value in parameters.values()))

    @property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes)

    def flatten(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, "p"]:
        """One vector, parameters end to end in the order of `names`."""
        return torch.cat([parameters[name].reshape(-1) for name in self.names])

    def unflatten(self, vector: Float[Tensor, "p"]) -> dict[str, Tensor]:
        """Views into the vector, by name; gradients flow back to it."""
        pieces = vector.split([shape.numel() for shape in self.shapes])
        return {
            name: piece.view(shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }
