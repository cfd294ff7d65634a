"""What every model offers: named parameters that can be read, replaced and laid in one vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.errors import TrainingError


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
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """How many numbers each parameter has, in the order of `names`."""
        return [shape.numel() for shape in self.shapes]

    def flatten(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, " p"]:
        """One vector, parameters end to end in the order of `names`."""
        self._check_one_kind(parameters)
        return torch.cat([parameters[name].reshape(-1) for name in self.names])

    def unflatten(self, vector: Float[Tensor, " p"]) -> dict[str, Tensor]:
        """Views into the vector, by name; gradients flow back to it."""
        pieces = vector.split(self.sizes)
        return {
            name: piece.view(shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def covers(self, names: Iterable[str]) -> Bool[Tensor, " p"]:
        """True where the flat vector holds one of the named parameters."""
        wanted = set(names)
        unknown = sorted(wanted.difference(self.names))
        if unknown:
            raise TrainingError(
                f"there is no parameter '{unknown[0]}'; there are: {', '.join(self.names)}."
            )
        here = torch.tensor([name in wanted for name in self.names], dtype=torch.bool)
        return here.repeat_interleave(torch.tensor(self.sizes, dtype=torch.int64))

    def place(self, index: int) -> str:
        """The name and position of one entry of the flat vector, such as `weights[3, 1]`."""
        for name, shape in zip(self.names, self.shapes, strict=True):
            if index < shape.numel():
                position = torch.unravel_index(torch.tensor(index), shape) if shape else ()
                return f"{name}{[int(i) for i in position]}" if shape else name
            index -= shape.numel()
        raise IndexError(index)

    def _check_one_kind(self, parameters: Mapping[str, Tensor]) -> None:
        kinds = {(value.dtype, value.device) for value in parameters.values()}
        if len(kinds) != 1 or not next(iter(kinds))[0].is_floating_point:
            found = ", ".join(
                f"{name}: {value.dtype} on {value.device}" for name, value in parameters.items()
            )
            raise TrainingError(
                "parameters must be floating-point numbers of one type on one device; "
                f"this model has {found or 'none at all'}."
            )
