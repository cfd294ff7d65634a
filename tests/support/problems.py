"""Functions to make small, with gradients by hand; and a tiny model with its objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

Function = Callable[[Tensor], tuple[Tensor, Tensor]]


def quadratic(size: int, condition: float, seed: int = 0) -> tuple[Function, Tensor]:
    """A convex quadratic with that condition number, and where it is least (float64)."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(size, size, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(normal).Q
    spread = torch.logspace(0, torch.tensor(condition).log10(), size, dtype=torch.float64)
    matrix = rotation @ torch.diag(spread) @ rotation.T
    target = torch.randn(size, generator=generator, dtype=torch.float64)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        residual = matrix.to(x.dtype) @ (x - target.to(x.dtype))
        return 0.5 * residual.dot(x - target.to(x.dtype)), residual

    return function, target


def rosenbrock(x: Tensor) -> tuple[Tensor, Tensor]:
    """The curved valley whose floor falls slowly to (1, ..., 1)."""
    bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = torch.zeros_like(x)
    gradient[1:] += 200 * bend
    gradient[:-1] += -400 * x[:-1] * bend - 2 * rest
    return (100 * bend**2 + rest**2).sum(), gradient


class Examples(NamedTuple):
    """One batch: features and labels of -1 or 1."""

    features: Tensor
    labels: Tensor


def examples(
    rows: int, columns: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Examples:
    """Random features, and labels drawn from a random logistic model."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    weights = torch.randn(columns, generator=generator, dtype=torch.float64)
    chance = torch.sigmoid(features @ weights)
    drawn = torch.rand(rows, generator=generator, dtype=torch.float64) < chance
    return Examples(features.to(dtype), drawn.to(dtype) * 2 - 1)


def logistic(data: Examples) -> Function:
    """The summed logistic loss of a weight vector."""

    def function(w: Tensor) -> tuple[Tensor, Tensor]:
        margin = -data.labels * (data.features @ w)
        return softplus(margin).sum(), data.features.T @ (-data.labels * torch.sigmoid(margin))

    return function


def split(data: Examples, parts: int) -> list[Examples]:
    """The same examples as several batches."""
    pieces = zip(data.features.chunk(parts), data.labels.chunk(parts), strict=True)
    return [Examples(*piece) for piece in pieces]


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """Weights and an intercept."""

    weights: Tensor
    intercept: Tensor

    def parameters(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "intercept": self.intercept}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> LogisticModel:
        return replace(self, **parameters)


def blank_model(columns: int, dtype: torch.dtype = torch.float64) -> LogisticModel:
    """All parameters zero."""
    return LogisticModel(torch.zeros(columns, dtype=dtype), torch.zeros((), dtype=dtype))


@dataclass(frozen=True)
class LogisticLoss:
    """Minus the log-likelihood of the labels."""

    def __call__(self, model: LogisticModel, batch: Examples) -> Tensor:
        return softplus(-batch.labels * (batch.features @ model.weights + model.intercept)).sum()
