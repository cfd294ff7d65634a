"""Largest eigenvalues of positive matrices that are only ever multiplied with vectors.

Power iteration finds left and right Perron vectors u and v; whatever positive v it ends with,
lambda <= max_x (M v)(x) / v(x) [Collatz, Wielandt], so that what is reported is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

PLAIN_STEPS = 6  # between two uses of Arnoldi's method
KRYLOV = 24
INVARIANT = 1e-10  # what is new in an image, relative, is rounding below this
SMALLEST_RITZ = 1e-8  # what Ritz vectors have for entries that are not positive


class PowerScores(Protocol):
    """Matrices M, one a row of vectors, by what they do; `weights` say how much each counts."""

    @property
    def weights(self) -> Float[Tensor, " k"]: ...

    def right_step(self, vectors: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        """log (M v), for vectors given and answered by their logarithms."""

    def both_steps(self, vectors: PerronVectors) -> PerronVectors:
        """log (M^T u) and log (M v)."""

    def alone(self, k: int) -> Self:
        """One of the matrices."""

    def quotients(
        self, left: Float[Tensor, "k n"], right: Float[Tensor, "k n"]
    ) -> Float[Tensor, " k"]:
        """log (u^T M v): at Perron vectors, log lambda plus log (u^T v)."""


@final
@dataclass(frozen=True, eq=False)
class PerronVectors:
    """Logarithms of left and right Perron vectors, or of what power iteration has for them."""

    left: Float[Tensor, "k n"]
    right: Float[Tensor, "k n"]

    @classmethod
    def ones(cls, like: Float[Tensor, "k n"]) -> PerronVectors:
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def overlap(self) -> Float[Tensor, " k"]:
        """log (u^T v)."""
        return (self.left + self.right).logsumexp(1)

    def alone(self, k: int) -> PerronVectors:
        """The vectors of one matrix."""
        return PerronVectors(self.left[k : k + 1], self.right[k : k + 1])

    def normalised(self) -> PerronVectors:
        """The same directions, each vector of sum 1."""
        return PerronVectors(_normalised(self.left), _normalised(self.right))


@torch.no_grad()
def power_steps(
    scores: PowerScores, vectors: PerronVectors, steps: int
) -> tuple[PerronVectors, Float[Tensor, "2 k"]]:
    """Vectors after so many multiplications with M.

    Comes with log lambda as vectors a step and half a step earlier have it.
    """
    for _ in range(steps):
        further = scores.both_steps(vectors)
        between = PerronVectors(vectors.left, further.right).overlap()
        growth = torch.stack((between - vectors.overlap(), further.overlap() - between))
        vectors = further.normalised()
    return vectors, growth


@torch.no_grad()
def follow(
    scores: PowerScores,
    vectors: PerronVectors,
    *,
    tolerance: float,
    most: int,
    gap: float = math.inf,
) -> tuple[PerronVectors, Float[Tensor, "3 k"]]:
    """Vectors after as many steps as each matrix needs until its share of the value stands still.

    Comes with log lambda as vectors a step and half a step earlier have it, and its proven limit.
    A step gives u^T v, u^T M v and u^T M M v: two quotients, whose difference is what is left of
    the error before the step.  Vectors that hardly reach the states that matter stand still too:
    with a `gap`, steps go on until the proven limit is that near to the value.  Where further
    eigenvalues are nearly as large as lambda, plain steps would take hundreds: now and then
    Arnoldi's method helps.
    """
    found, estimates = [], []
    for k, weight in enumerate(scores.weights):
        own, chain = vectors.alone(k), scores.alone(k)
        for step in range(most):
            further = chain.both_steps(own)
            between = PerronVectors(own.left, further.right).overlap()
            value, estimate = between - own.overlap(), further.overlap() - between
            limit = torch.minimum(
                (further.left - own.left).amax(1), (further.right - own.right).amax(1)
            )
            moved = (estimate - value).abs()
            error, excess = torch.cat((weight * moved, weight * (limit - value))).tolist()
            own = further.normalised()
            if not (error > tolerance or excess > gap):
                break
            if gap < math.inf and step % PLAIN_STEPS == PLAIN_STEPS - 1:
                own = arnoldi(chain, own, value)
        found.append(own)
        estimates.append(torch.stack((value, estimate, limit)))
    left, right = ([getattr(own, side) for own in found] for side in ("left", "right"))
    return PerronVectors(torch.cat(left), torch.cat(right)), torch.cat(estimates, 1)


@torch.no_grad()
def arnoldi(chain: PowerScores, own: PerronVectors, growth: Float[Tensor, " 1"]) -> PerronVectors:
    """Better vectors of one matrix from the Krylov spaces of both sides.

    Entries of M span hundreds of orders of magnitude.  Relative to the vectors at hand, as
    M(x, y) v(y) / v(x), they do not, and every state has a say however small its entry is.
    """
    reference = torch.cat((own.left, own.right))

    def step(vectors: Float[Tensor, "2 n"]) -> Float[Tensor, "2 n"]:
        """M^T and M, divided by the growth, on positive vectors relative to the reference."""
        logarithms = (reference + vectors.log()).to(reference.dtype)
        further = chain.both_steps(PerronVectors(*logarithms.split(1)))
        return (torch.cat((further.left, further.right)) - reference - growth).double().exp()

    ones = torch.ones_like(reference, dtype=torch.float64)
    of_ones = step(ones)
    if not bool(of_ones.isfinite().all()):
        return own
    basis = [ones / ones.shape[1] ** 0.5]
    most = min(KRYLOV, ones.shape[1])
    hessenberg = np.zeros((2, most + 1, most))
    for k in range(most):
        # Made positive by a multiple of ones, whose image is known.
        shift = 2 * basis[k].abs().amax(1, keepdim=True)
        further = step(basis[k] + shift) - shift * of_ones
        whole = further.norm(dim=1, keepdim=True)
        for _ in range(2):  # once more, for what rounding left of it
            for j, earlier in enumerate(basis):
                along = (earlier * further).sum(1, keepdim=True)
                hessenberg[:, j, k] += along.squeeze(1).cpu().numpy()
                further = further - along * earlier
        size = further.norm(dim=1, keepdim=True)
        hessenberg[:, k + 1, k] = size.squeeze(1).cpu().numpy()
        if not bool((size > INVARIANT * whole).all()):
            break  # the space of one side is complete, or numbers ran over
        basis.append(further / size)
    used = min(len(basis), most)
    if not np.isfinite(hessenberg).all():
        return own
    ritz = [_leading(square[:used, :used]) for square in hessenberg]
    weights = torch.from_numpy(np.stack(ritz, axis=1)).to(ones).unsqueeze(2)  # k, side, 1
    vectors = (torch.stack(basis[:used]) * weights).sum(0)
    vectors = vectors * vectors.sum(1, keepdim=True).sign()
    vectors = vectors.clamp_min(SMALLEST_RITZ * vectors.amax(1, keepdim=True))
    if not bool((vectors > 0).all()):
        return own
    logarithms = (reference + vectors.log()).to(reference.dtype)
    return PerronVectors(*logarithms.split(1)).normalised()


def _leading(square: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The eigenvector of the eigenvalue of largest real part: Perron's is real."""
    values, vectors = np.linalg.eig(square)
    return np.asarray(vectors[:, values.real.argmax()].real)


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """Proven limits of sum_l rho_l log lambda_l, and the right vectors that power steps led to."""

    lower: float
    upper: float
    right: Float[Tensor, "k n"]


@torch.no_grad()
def certify(
    scores: PowerScores,
    start: Float[Tensor, "k n"],
    *,
    tolerance: float = 1e-6,
    most: int = 200,
) -> Certificate:
    """Limits of the chains' value from right vectors `start`, to within `tolerance` if it can."""
    right, lower, upper = start, -math.inf, math.inf
    for step in range(most):
        after = scores.right_step(right)
        # [Collatz, Wielandt] min (Mv/v) <= lambda <= max (Mv/v), for any positive v.
        growth = after - right
        lower = max(lower, float(scores.weights @ growth.amin(1)))
        upper = min(upper, float(scores.weights @ growth.amax(1)))
        if upper - lower <= tolerance:
            break
        if step % 2:
            # With M + lambda: a matrix that goes round in circles has further eigenvalues as large
            # as lambda but not as positive, and would take vectors round with it.
            middle = growth.logsumexp(1, keepdim=True) - math.log(growth.shape[1])
            after = torch.logaddexp(after, right + middle)
        right = _normalised(after)
    return Certificate(lower, upper, right)


def _normalised(vectors: Tensor) -> Tensor:
    return vectors - vectors.logsumexp(1, keepdim=True)
