"""The contract of training: an objective is a function of one flat vector of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models import Model

M = TypeVar("M")
N = TypeVar("N", bound=Model)
Vector = Float[Tensor, " p"]  # all parameters of a model, end to end


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

    def flatten(self, parameters: Mapping[str, Tensor]) -> Vector:
        """One vector, parameters end to end in the order of `names`."""
        kinds = {(value.dtype, value.device) for value in parameters.values()}
        if len(kinds) != 1 or not next(iter(kinds))[0].is_floating_point:
            found = [f"{name}: {own.dtype} on {own.device}" for name, own in parameters.items()]
            raise TrainingError(
                "parameters must be floating-point numbers of one type on one device; "
                f"this model has {', '.join(found) or 'none at all'}."
            )
        return torch.cat([parameters[name].reshape(-1) for name in self.names])

    def unflatten(self, vector: Vector) -> dict[str, Tensor]:
        """Views into the vector, by name; gradients flow back to it."""
        pieces = vector.split(self.sizes)
        return {
            name: piece.view(shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def place(self, index: int) -> str:
        """The name and position of one entry of the flat vector, such as `weights[3, 1]`."""
        for name, shape in zip(self.names, self.shapes, strict=True):
            if index < shape.numel():
                position = torch.unravel_index(torch.tensor(index), shape) if shape else ()
                return f"{name}{[int(i) for i in position]}" if shape else name
            index -= shape.numel()
        raise IndexError(index)


@final
@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """An objective at one vector.

    `noise` is by how much the value may be off beside the rounding of the vector's type, for
    instance because an iteration inside the objective was stopped at a tolerance.
    """

    value: Float[Tensor, ""]
    gradient: Vector
    noise: Float[Tensor, ""] | float = 0.0


class Objective(Generic[M]):
    """A function to minimise: value and gradient at a flat vector.

    Values are in nats and summed over the data (per position in language models), and hold no
    penalty: training adds that once.  The vector holds the parameters of `model` end to end.

    The same vector has the same value and gradient until `commit`: what an iteration inside starts
    from (messages of belief propagation, Perron vectors) changes only with an accepted step.
    """

    model: Any  # its types and shapes count; the vector replaces its parameters
    members: Sequence[Objective[Any]] = ()  # the objectives that it is made of, if any
    advice: str = ""  # what to try where training gets stuck
    random: bool = False  # parts draw at random (dropout), so that no value can be asked for again
    origin: float = 0.0  # values leave this constant out, so that small gains show in their digits

    def __call__(self, vector: Vector, /) -> Evaluation:
        """Value and gradient, the sum of all parts unless an objective has a faster way.

        The gradient may lie in a buffer that the next call overwrites.
        """
        return total([self.part(k, vector) for k in range(self.parts)])

    @cached_property
    def layout(self) -> Layout:
        """Where each parameter lies in the vector."""
        return Layout.of(self.model.parameters())

    @property
    def start(self) -> Vector:
        """The vector of the model's own parameters."""
        return self.layout.flatten(self.model.parameters()).detach()

    def at(self, vector: Vector) -> M:
        """The model with the parameters of a vector."""
        found: M = self.model.with_parameters(self.layout.unflatten(vector))
        return found

    @property
    def parts(self) -> int:
        """How many objectives this is the sum of: minibatches, for optimisers that take such."""
        return len(self.members) or 1

    def part(self, index: int, vector: Vector) -> Evaluation:
        """One of these objectives."""
        return self.members[index](vector) if self.members else self(vector)

    @property
    def branches(self) -> bool:
        """Whether the value may leap from one branch of solutions to another."""
        return any(member.branches for member in self.members)

    @property
    def converged(self) -> bool:
        """Whether every inference of the last evaluation converged."""
        return all(member.converged for member in self.members)

    def commit(self) -> None:
        """Keep the warm start of the last evaluation: its vector was accepted."""
        for member in self.members:
            member.commit()

    def state(self) -> dict[str, Tensor]:
        """The committed warm start, for a checkpoint."""
        return numbered([member.state() for member in self.members])

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        for k, member in enumerate(self.members):
            member.restore(under(f"{k}.", state))


@final
class Sum(Objective[M]):
    """The sum of objectives of the same vector, which are its parts."""

    def __init__(self, members: Sequence[Objective[M]]) -> None:
        if not members:
            raise TrainingError("there are no batches to train on; at least one is needed.")
        self.members = members
        self.model = members[0].model


@final
class Autograd(Objective[N]):
    """`loss(model, batch)` summed over batches, differentiated by torch.

    `batches` is a sequence of batches (a list, or an own one that loads them when asked) or else
    one batch.  The loss is in nats and summed over its batch.
    """

    def __init__(self, model: N, batches: Any, loss: Callable[[N, Any], Tensor]) -> None:
        # A named tuple is one batch, though Python calls it a sequence.
        many = isinstance(batches, Sequence) and not hasattr(batches, "_fields")
        self.batches: Sequence[Any] = batches if many else (batches,)
        if not len(self.batches):
            raise TrainingError("there are no batches to train on; at least one is needed.")
        self.model, self.loss = model, loss

    @property
    def parts(self) -> int:
        return len(self.batches)

    def part(self, index: int, vector: Vector) -> Evaluation:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            value = self.loss(self.at(leaf), self.batches[index])
        if not value.requires_grad:
            raise TrainingError(
                f"the loss on batch {index} does not depend on any parameter. Was the value "
                "detached, or computed under no_grad?"
            )
        (gradient,) = torch.autograd.grad(value, leaf)
        value = value.detach() if index or not self.origin else value.detach() - self.origin
        return Evaluation(value, gradient)


@final
class Reparametrised(Objective[Any]):
    """An objective of one model's parameters as an objective of the parameters of `model`.

    Entry i of the objective's vector is entry `number[i]` of the vector of `model` plus `shift`.
    """

    def __init__(
        self,
        objective: Objective[Any],
        model: Any,
        number: Int64[Tensor, " p"] | None = None,
        shift: Vector | None = None,
    ) -> None:
        self.members, self.model, self.number = [objective], model, number
        self.shift = torch.zeros(1) if shift is None else shift

    @property
    def start(self) -> Vector:
        begin = super().start
        return begin - self.shift.to(begin)

    def at(self, vector: Vector) -> Any:
        return super().at(vector + self.shift.to(vector))

    @property
    def parts(self) -> int:
        return self.members[0].parts

    def part(self, index: int, vector: Vector) -> Evaluation:
        weights = vector + self.shift.to(vector)
        if self.number is None:
            return self.members[0].part(index, weights)
        found = self.members[0].part(index, weights[self.number])
        own = torch.zeros_like(vector).index_add_(0, self.number, found.gradient)
        return replace(found, gradient=own)


def total(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The sum of evaluations at one vector; values are added in float64."""
    first, *others = evaluations
    if not others:
        return first
    value, gradient, noise = first.value.double(), first.gradient.clone(), first.noise
    for own in others:
        value, noise = value + own.value, noise + own.noise
        gradient.add_(own.gradient)
    return Evaluation(value, gradient, noise)


def numbered(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of several states, each under its number and name."""
    return {f"{k}.{name}": own for k, held in enumerate(states) for name, own in held.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start so, under the rest of their names."""
    return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
