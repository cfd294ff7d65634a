"""Largest eigenvalues of positive matrices that are only ever multiplied with vectors.

Power iteration finds left and right Perron vectors u and v; whatever positive v it ends with,
lambda <= max_x (M v)(x) / v(x) [Collatz, Wielandt], so that what is reported is proven.  Vectors
are given by their logarithms, left and right ones as one tensor (2, k, n): k matrices, n states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.log_product import log_product, log_product_limits, shifted_exp
from mrflearn.kernels.low_rank import power_step, row_logsumexp, star_logsumexp

PLAIN_STEPS = 6  # between two uses of Arnoldi's method
KRYLOV = 24
INVARIANT = 1e-10  # what is new in an image, relative, is rounding below this
SMALLEST_RITZ = 1e-8  # what Ritz vectors have for entries that are not positive


RightVectors = Float[Tensor, "k n"]
Vectors: TypeAlias = Float[Tensor, "2 k n"]


class RightMatrices(Protocol):
    """Matrices M, one per row of vectors, that multiply right vectors; `weights`: of each."""

    @property
    def weights(self) -> Float[Tensor, " k"]: ...

    def right_step(self, right: RightVectors) -> tuple[RightVectors, RightVectors]:
        """log (M v) from above and from below.

        They differ where a sum is under the type's smallest number: it is raised to that number,
        so that vectors stay positive, or is -inf.
        """


class PositiveMatrices(RightMatrices, Protocol):
    """Matrices that multiply vectors from both sides."""

    def both_steps(self, vectors: Vectors) -> Vectors:
        """log (M^T u) and log (M v)."""

    def alone(self, k: int) -> Self:
        """One of the matrices."""

    def quotients(self, vectors: Vectors) -> Float[Tensor, " k"]:
        """log (u^T M v): at Perron vectors, log lambda plus log (u^T v)."""


def overlap(vectors: Vectors) -> Float[Tensor, " k"]:
    """log (u^T v)."""
    return vectors.sum(0).logsumexp(1)


def normalised(vectors: Tensor) -> Tensor:
    """The same directions, each vector of sum 1."""
    return vectors - vectors.logsumexp(-1, keepdim=True)


def onward(vectors: Vectors, gradient: Vectors) -> tuple[Vectors, Float[Tensor, ""]]:
    """Vectors after one more power step, from the gradient of the weighted log lambda by them.

    Comes with how far its proven limit [Collatz, Wielandt] lies above the weighted log lambda.  The
    gradient by log u is rho u (M v) / u^T M v, and by log v the same with M^T u.  A state too rare
    for its type's smallest number keeps that number instead of dying out.
    """
    weights, vectors = gradient[0].sum(1), vectors.detach()
    further = (_positive(gradient).log() - vectors).flip(0)
    limit = (further - vectors).amax(2).amin(0) + overlap(vectors) - weights.log()
    return normalised(further), weights @ limit


@torch.no_grad()
def power_steps(
    matrices: PositiveMatrices, vectors: Vectors, steps: int
) -> tuple[Vectors, Float[Tensor, "2 k"]]:
    """Vectors after so many multiplications with M.

    Comes with log lambda as vectors a step and half a step earlier have it.
    """
    for _ in range(steps):
        further = matrices.both_steps(vectors)
        growth = torch.stack(_growth(vectors, further))
        vectors = normalised(further)
    return vectors, growth


def _growth(vectors: Vectors, further: Vectors) -> tuple[Tensor, Tensor]:
    """log lambda by the quotients u^T M v / u^T v and u^T M M v / u^T M v."""
    between = (vectors[0] + further[1]).logsumexp(1)
    return between - overlap(vectors), overlap(further) - between


@torch.no_grad()
def follow(
    matrices: PositiveMatrices, vectors: Vectors, tolerance: float, most: int, gap: float = math.inf
) -> tuple[Vectors, Float[Tensor, "3 k"]]:
    """Vectors after as many steps as each matrix needs until its share of the value stands still.

    Comes with log lambda as vectors a step and half a step earlier have it, and its proven limit.
    A step gives u^T v, u^T M v and u^T M M v: two quotients, whose difference is what is left of
    the error before the step.  Vectors that hardly reach the states that matter stand still too:
    with a `gap`, steps go on until the proven limit is that near to the value.  Where further
    eigenvalues are nearly as large as lambda, plain steps would take hundreds: now and then
    Arnoldi's method helps.
    """
    found, estimates = [], []
    for k, weight in enumerate(matrices.weights):
        own, matrix = vectors[:, k : k + 1], matrices.alone(k)
        for step in range(most):
            further = matrix.both_steps(own)
            value, estimate = _growth(own, further)
            limit = (further - own).amax(2).amin(0)
            moved = (estimate - value).abs()
            error, excess = torch.cat((weight * moved, weight * (limit - value))).tolist()
            own = normalised(further)
            if not (error > tolerance or excess > gap):
                break
            if gap < math.inf and step % PLAIN_STEPS == PLAIN_STEPS - 1:
                own = arnoldi(matrix, own, value)
        found.append(own)
        estimates.append(torch.stack((value, estimate, limit)))
    return torch.cat(found, 1), torch.cat(estimates, 1)


@torch.no_grad()
def arnoldi(
    matrix: PositiveMatrices, own: Float[Tensor, "2 1 n"], growth: Float[Tensor, " 1"]
) -> Float[Tensor, "2 1 n"]:
    """Better vectors of one matrix from the Krylov spaces of both sides.

    Entries of M span hundreds of orders of magnitude.  Relative to the vectors at hand, as
    M(x, y) v(y) / v(x), they do not, and every state has a say however small its entry is.
    """
    reference = own.squeeze(1)

    def step(vectors: Float[Tensor, "2 n"]) -> Float[Tensor, "2 n"]:
        """M^T and M, divided by the growth, on positive vectors relative to the reference."""
        logarithms = (reference + vectors.log()).to(reference.dtype)
        further = matrix.both_steps(logarithms.unsqueeze(1)).squeeze(1)
        return (further - reference - growth).double().exp()

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
    return normalised(logarithms).unsqueeze(1)


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
    right: RightVectors


@torch.no_grad()
def certify(
    matrices: RightMatrices, start: RightVectors, *, tolerance: float = 1e-6, most: int = 200
) -> Certificate:
    """Limits of the chains' value from right vectors `start`, to within `tolerance` if it can."""
    right, lower, upper = start, -math.inf, math.inf
    for step in range(most):
        after, below = matrices.right_step(right)
        # [Collatz, Wielandt] min (Mv/v) <= lambda <= max (Mv/v), for any positive v.
        growth = after - right
        least = (growth if below is after else below - right).amin(1)
        lower = max(lower, float(matrices.weights @ least))
        upper = min(upper, float(matrices.weights @ growth.amax(1)))
        if upper - lower <= tolerance:
            break
        if step % 2:
            # With M + lambda: a matrix that goes round in circles has further eigenvalues as large
            # as lambda but not as positive, and would take vectors round with it.
            middle = growth.logsumexp(1, keepdim=True) - math.log(growth.shape[1])
            after = torch.logaddexp(after, right + middle)
        right = normalised(after)
    return Certificate(lower, upper, right)


# The matrices of chains, of windows and of three states in a row.


@final
@dataclass(frozen=True, eq=False)
class LowRankMatrices:
    """The logarithms of matrices M, one per offset: left_l . right_l / weight_l + bias_l."""

    left: Float[Tensor, "k c d"]
    right: Float[Tensor, "k c d"]
    bias: Float[Tensor, "k c"]
    weights: Float[Tensor, " k"]

    def right_step(self, vectors: Float[Tensor, "k c"]) -> tuple[Tensor, Tensor]:
        further = row_logsumexp(self.left, self.right, self.bias + vectors, 1 / self.weights)
        return further, further

    def both_steps(self, vectors: Vectors) -> Vectors:
        """log (M^T u) and log (M v)."""
        scaled = self.left / self.weights.view(-1, 1, 1)
        return torch.stack(power_step(scaled, self.right, self.bias, *vectors))

    def alone(self, k: int) -> LowRankMatrices:
        """The matrix of one offset."""
        one = slice(k, k + 1)
        return LowRankMatrices(self.left[one], self.right[one], self.bias[one], self.weights[one])

    def quotients(self, vectors: Vectors) -> Float[Tensor, " k"]:
        """log (u^T M v): the log-partition of a star with a single leaf."""
        left, right = vectors.unbind()
        parts = zip(self.left, self.right, self.bias + right, left, self.weights, strict=True)
        values = [
            star_logsumexp(rows[None], columns[None], bias[None], centre, (1 / weight).view(1))
            for rows, columns, bias, centre, weight in parts
        ]
        return torch.stack(values)


@final
@dataclass(frozen=True, eq=False)
class WindowMatrix:
    """The logarithm of T without triples: scores of the last word with the nearer and the further.

    Vectors have one number per window, as the single row of a table.
    """

    near: Float[Tensor, "c c"]
    far: Float[Tensor, "c c"]
    weights: Float[Tensor, " 1"]

    def right_step(self, vectors: Float[Tensor, "1 w"]) -> tuple[Tensor, Tensor]:
        above, below = log_product_limits(self.far, self.near + vectors.view_as(self.near))
        return above.view(1, -1), below.view(1, -1)

    def both_steps(self, vectors: Vectors) -> Vectors:
        """log (T^T u) and log (T v)."""
        left, right = vectors.unbind()
        further = (self.near + self._after(left)).view(1, -1)
        return torch.stack((further, self.right_step(right)[0]))

    def alone(self, k: int) -> WindowMatrix:  # noqa: ARG002
        """The only matrix there is."""
        return self

    def quotients(self, vectors: Vectors) -> Float[Tensor, " 1"]:
        """log (u^T T v)."""
        left, right = vectors.unbind()
        parts = self._after(left) + self.near + right.view_as(self.near)
        return parts.flatten().logsumexp(0, keepdim=True)

    def _after(self, first: Float[Tensor, "1 w"]) -> Float[Tensor, "y z"]:
        """Sums out the first word x of three, given the scores of the earlier two."""
        return log_product(first.view_as(self.near).T, self.far.T)


@final
@dataclass(frozen=True, eq=False)
class TripleMatrices:
    """The logarithms of matrices that lead from a pair (a, b) to (b, c) alone, by tables of three.

    Vectors have one number per pair; a step costs the cube of the states.
    """

    tables: Float[Tensor, "f t t t"]
    weights: Float[Tensor, " f"]

    @cached_property
    def _forth(self) -> tuple[Tensor, Tensor]:
        """Weights relative to the highest by the last state, and those highest scores."""
        return shifted_exp(self.tables, 3)

    @cached_property
    def _back(self) -> tuple[Tensor, Tensor]:
        return shifted_exp(self.tables, 1)

    def right_step(self, vectors: Float[Tensor, "f p"]) -> tuple[Tensor, Tensor]:
        weights, top = self._forth
        own, highest = shifted_exp(vectors.view(top.shape), 2)
        sums = torch.einsum("fabc,fbc->fab", weights, own)
        shift = top + highest.unsqueeze(1)
        return (_positive(sums).log() + shift).flatten(1), (sums.log() + shift).flatten(1)

    def both_steps(self, vectors: Vectors) -> Vectors:
        """log (M^T u) and log (M v)."""
        weights, top = self._back
        own, highest = shifted_exp(vectors[0].view(top.shape), 1)
        sums = _positive(torch.einsum("fabc,fab->fbc", weights, own))
        left = sums.log() + (top + highest.unsqueeze(2))
        return torch.stack((left.flatten(1), self.right_step(vectors[1])[0]))

    @torch.no_grad()
    def approach(self, vectors: Vectors, tolerance: float, most: int) -> Vectors:
        """Vectors after as many steps as they still move by.

        Without logarithms a step costs a small part of what telling its error does.
        """
        shape = self.tables.shape[:3]
        weights = (self.tables - self.tables.amax((1, 2, 3), keepdim=True)).exp()
        left, right = vectors.softmax(2).view(2, *shape)
        for step in range(most):
            before = left, right
            right = _of_sum_one(torch.einsum("fabc,fbc->fab", weights, right))
            left = _of_sum_one(torch.einsum("fabc,fab->fbc", weights, left))
            if float((right - before[1]).abs().amax()) <= tolerance:
                break
            if step % 2:  # with M + lambda: no matrix goes round in circles
                left, right = (left + before[0]) / 2, (right + before[1]) / 2
        return _positive(torch.stack((left, right))).log().flatten(2)

    def alone(self, k: int) -> TripleMatrices:
        """One of the matrices."""
        return TripleMatrices(self.tables[k : k + 1], self.weights[k : k + 1])

    def quotients(self, vectors: Vectors) -> Float[Tensor, " f"]:
        """log (u^T M v); its gradient is how often each triple occurs."""
        left, right = vectors.view(2, *self.tables.shape[:3]).unbind()
        ends = left.unsqueeze(3) + right.unsqueeze(1)
        return (self.tables + ends).flatten(1).logsumexp(1)


def _of_sum_one(vectors: Float[Tensor, "f a b"]) -> Float[Tensor, "f a b"]:
    return vectors / vectors.sum((1, 2), keepdim=True)


def _positive(sums: Tensor) -> Tensor:
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)
