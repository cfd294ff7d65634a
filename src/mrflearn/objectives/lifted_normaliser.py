"""The normalisers of the lifted bound: upper bounds on log Z / N that training can differentiate.

A normaliser may keep tensors between evaluations, always in the same memory, so that an evaluation
can be recorded once and replayed on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.chain_bound import ChainScores
from mrflearn.inference.perron import PerronVectors, PowerScores, follow, power_steps
from mrflearn.inference.star_bound import star_log_partition
from mrflearn.inference.window_bound import WindowScores

Function: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
# What the scores of a field and the duals of its bound make the matrices of.
Lay: TypeAlias = Callable[[NeighbourScores, Tensor], PowerScores]
FIRST_STEPS = 20  # at most
# By how much the value may move between two power steps: a line search takes it for noise.
DRIFT = {torch.float32: 5e-5, torch.float64: 1e-10}
GAP = {torch.float32: float("inf"), torch.float64: 1e-3}  # see `follow`
MOST_STEPS = {torch.float32: 8, torch.float64: 100}
STEPS_UNSEEN, MOST_REPEATS = 4, 10  # on a GPU, where a recorded evaluation cannot look


class Normaliser(Protocol):
    """log Z / N from above, as a function of scores and duals."""

    @property
    def weights(self) -> Tensor | None:
        """By how much each offset counts; None: all alike."""

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Tensors of its own whose gradients it wants to see after an evaluation."""

    @property
    def drift(self) -> Tensor | None:
        """By how much the value still moves when it is evaluated again; None: not at all."""

    def __call__(
        self, scores: NeighbourScores, duals: Float[Tensor, "k c"]
    ) -> Float[Tensor, ""]: ...

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """Take the gradients of the leaves in."""

    def prepare(self, scores: NeighbourScores, duals: Float[Tensor, "k c"]) -> None:
        """Gets ready for a training that begins with these scores."""


@final
class StarNormaliser:
    """The stars of [Jernite, Rush, Sontag 2015]; every value is a bound."""

    weights: Tensor | None = None
    leaves: tuple[Tensor, ...] = ()
    drift: Tensor | None = None

    def __call__(self, scores: NeighbourScores, duals: Tensor) -> Tensor:
        return star_log_partition(*scores.pairwise, duals)

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """Nothing: stars keep no state."""

    def prepare(self, scores: NeighbourScores, duals: Tensor) -> None:
        """Nothing: stars keep no state."""


@final
class SpectralNormaliser:
    """Chains or windows, by the Rayleigh quotient of Perron vectors that follow the parameters.

    u^T M v / u^T v errs only by the product of the errors of u and v, and its gradient gives the
    next power step of both for nothing.  During training the value is thus an estimate of the
    bound; `inference.perron.certify` makes it one.  A `recorded` evaluation always takes the
    same number of steps and says by how much the last still moved the value.
    """

    def __init__(
        self,
        lay: Lay,
        weights: Float[Tensor, "k"],
        like: Float[Tensor, "k n"],
        *,
        recorded: bool = False,
    ) -> None:
        self.lay = lay
        self.weights: Tensor = weights
        self.left = torch.zeros_like(like).requires_grad_(True)
        self.right = torch.zeros_like(like).requires_grad_(True)
        self.drift: Tensor | None = like.new_zeros(()) if recorded else None

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return self.left, self.right

    @property
    def vectors(self) -> PerronVectors:
        return PerronVectors(self.left.detach(), self.right.detach())

    def __call__(self, scores: NeighbourScores, duals: Tensor) -> Tensor:
        matrices = self.lay(scores, duals)
        if self.drift is None:
            self._keep(self._followed(matrices, MOST_STEPS[duals.dtype]))
            return self._value(matrices)
        vectors, before = power_steps(matrices, self.vectors, STEPS_UNSEEN)
        self._keep(vectors)
        value = self._value(matrices)
        self.drift.copy_((value - self.weights @ before).detach().abs())
        return value

    def _followed(self, matrices: PowerScores, most: int) -> PerronVectors:
        dtype = self.left.dtype
        return follow(matrices, self.vectors, tolerance=DRIFT[dtype], most=most, gap=GAP[dtype])

    def _value(self, matrices: PowerScores) -> Tensor:
        return self.weights @ (matrices.quotients(self.left, self.right) - self.vectors.overlap())

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """One power step of both vectors.

        The gradient by log u is rho u (M v) / u^T M v, and by log v the same with M^T u.
        """
        rows, columns = (_logarithm(gradient) for gradient in gradients)
        before = self.vectors
        self._keep(PerronVectors(columns - before.right, rows - before.left))

    def prepare(self, scores: NeighbourScores, duals: Tensor) -> None:
        """Power steps from scratch; later evaluations only follow."""
        self._keep(self._followed(self.lay(scores, duals), FIRST_STEPS))

    @torch.no_grad()
    def _keep(self, vectors: PerronVectors) -> None:
        vectors = vectors.normalised()
        for own, new in ((self.left, vectors.left), (self.right, vectors.right)):
            own.copy_(new)


def chain_normaliser(
    weights: Float[Tensor, "k"], like: Float[Tensor, "k c"], *, recorded: bool = False
) -> SpectralNormaliser:
    """Chains of these weights; `like` has the shape and the kind of their duals."""

    def lay(scores: NeighbourScores, duals: Tensor) -> PowerScores:
        return ChainScores.of(*scores.pairwise, duals, weights)

    return SpectralNormaliser(lay, weights, like, recorded=recorded)


def window_normaliser(like: Float[Tensor, "c"]) -> SpectralNormaliser:
    """Windows of two words, which have no duals."""

    def lay(scores: NeighbourScores, duals: Tensor) -> PowerScores:
        del duals
        return WindowScores.of(scores)

    return SpectralNormaliser(lay, like.new_ones(1), like.new_zeros(1, len(like) ** 2))


def settled(function: Function, normaliser: Normaliser) -> Function:
    """The function, evaluated again where parameters moved too far for the vectors to follow."""
    drift = normaliser.drift
    if drift is None:
        return function

    def evaluate(vector: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(MOST_REPEATS):
            answer = function(vector)
            if not float(drift) > DRIFT[vector.dtype]:
                break
        return answer

    return evaluate


def _logarithm(values: Tensor) -> Tensor:
    # A word too rare for its type's smallest number keeps that number instead of dying out.
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()
