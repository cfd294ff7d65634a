"""Preconditioning: coordinates in which the curvature of an objective is about one.

L-BFGS spends most of its iterations on learning how differently an objective bends along its
coordinates.  Where that is roughly known, it is divided out: training moves u and the objective
sees w.

    diagonal:   w = sizes * u                   sizes = 1 / sqrt(curvature along each parameter)
    Cholesky:   w = origin + L'^-1 u            L L' = the curvature at the origin

Penalties are on w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import torch
from jaxtyping import Float
from torch import Tensor


class Scaling(Protocol):
    """A linear change of coordinates."""

    def natural(self, scaled: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The parameters w of scaled coordinates u."""

    def scaled(self, natural: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The scaled coordinates u of parameters w."""

    def pull_back(self, gradient: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The gradient by u of what has this gradient by w."""


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """w = sizes * u."""

    sizes: Float[Tensor, " p"]

    def natural(self, scaled: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return scaled * self.sizes.to(scaled.dtype)

    def scaled(self, natural: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return natural / self.sizes.to(natural.dtype)

    def pull_back(self, gradient: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return gradient * self.sizes.to(gradient.dtype)


@final
@dataclass(frozen=True, eq=False)
class Cholesky:
    """w = origin + L'^-1 u for the lower triangle L."""

    factor: Float[Tensor, "p p"]
    origin: Float[Tensor, " p"]

    @classmethod
    def of(
        cls, curvature: Float[Tensor, "p p"], origin: Float[Tensor, " p"], l2: float = 0.0
    ) -> Cholesky:
        """From the curvature at the origin, without that of L2; a small ridge keeps it regular."""
        ridged = curvature.clone()
        diagonal = ridged.diagonal()
        diagonal.mul_(1.001).add_(2 * l2 + 1e-3 * diagonal.mean() + 1e-12)
        return cls(torch.linalg.cholesky(ridged), origin)

    def natural(self, scaled: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        column = scaled.unsqueeze(1)
        turned: Tensor = torch.linalg.solve_triangular(self.factor.T, column, upper=True)
        return self.origin + turned.squeeze(1)

    def scaled(self, natural: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return self.factor.T @ (natural - self.origin)

    def pull_back(self, gradient: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        column = gradient.unsqueeze(1)
        turned: Tensor = torch.linalg.solve_triangular(self.factor, column, upper=False)
        return turned.squeeze(1)
