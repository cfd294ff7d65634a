"""Plain functions of one vector as objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mrflearn.objectives.base import Autograd, Evaluation, Layout, Objective, Sum
from mrflearn.training import loop
from mrflearn.training.outcome import Outcome

ValueAndGradient = Callable[[Tensor], Any]


class Vector:
    """A model that is its one parameter."""

    def __init__(self, vector: Tensor) -> None:
        self.vector = vector

    def parameters(self) -> dict[str, Tensor]:
        return {"vector": self.vector}

    def with_parameters(self, parameters: dict[str, Tensor]) -> Tensor:
        return parameters["vector"]


class Function(Objective[Tensor]):
    """A function that gives value and gradient, or an evaluation."""

    def __init__(self, function: ValueAndGradient, start: Tensor) -> None:
        self.function, self.model = function, Vector(start)
        self.layout = Layout(("vector",), (start.shape,))

    @property
    def start(self) -> Tensor:
        return self.model.vector

    def __call__(self, vector: Tensor) -> Evaluation:
        found = self.function(vector)
        if isinstance(found, Evaluation):
            return found
        value, gradient = found
        return Evaluation(torch.as_tensor(value, dtype=torch.float64), gradient)


def objective_of(
    functions: ValueAndGradient | Sequence[ValueAndGradient], start: Tensor
) -> Objective[Tensor]:
    """The sum of functions."""
    if not isinstance(functions, Sequence):
        return functions if isinstance(functions, Objective) else Function(functions, start)
    return Sum([Function(function, start) for function in functions])


def minimise(
    functions: ValueAndGradient | Sequence[ValueAndGradient],
    start: Tensor,
    optimiser: Any,
    *,
    in_double: Callable[[], ValueAndGradient] | None = None,
    **settings: Any,
) -> Outcome[Tensor]:
    """The vector where the sum of functions is least."""
    doubled = None if in_double is None else lambda: objective_of(in_double(), start.double())
    objective = objective_of(functions, start)
    return loop.minimise(objective, optimiser, start=start, in_double=doubled, **settings)


def fit(model: Any, batches: Any, objective: Any, optimiser: Any, **settings: Any) -> Outcome[Any]:
    """The model whose loss, summed over batches, is least."""
    return loop.minimise(Autograd(model, batches, objective), optimiser, **settings)
