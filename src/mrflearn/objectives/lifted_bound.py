"""The lifted bound of a language model as a function of one vector, and its log Z terms.

A normaliser may keep tensors between evaluations, always in the same memory, so that an evaluation
can be recorded once and replayed on a GPU.

The vector holds the model's parameters and the bound's dual variables, which are moved together:
the bound holds for every value of the duals, so that the inner loop of [Jernite, Rush, Sontag
2015, Algorithm 2] is not needed.  After the moments are counted the corpus is not read again, and
the value is a mean over positions, so that neither time nor result depends on the corpus' size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, final

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.recording import recorded
from mrflearn.features.moments import Moments
from mrflearn.graph.lifted_scores import NeighbourScores
from mrflearn.inference.lifted import ChainCover, WindowScores, star_log_partition
from mrflearn.inference.perron import PerronVectors, PowerScores, follow, power_steps
from mrflearn.kernels.pair_expectation import pair_expectation
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.neighbour_lm import NeighbourModel
from mrflearn.models.parameters import Layout
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.scaling import Diagonal

# The normalisers of the lifted bound: upper bounds on log Z / N that training can differentiate.


# What the scores of a field and the duals of its bound make the matrices of.
Lay: TypeAlias = Callable[[NeighbourScores, Tensor], PowerScores]
FEW_STATES = 4096
STEPS_UNSEEN, MOST_REPEATS = 4, 10  # on a GPU, where a recorded evaluation cannot look
DRIFT_UNSEEN = 5e-5  # what is left of the error of a recorded evaluation, at most


class Pursuit(NamedTuple):
    """How closely Perron vectors follow the parameters; see `follow`.

    Among many states steps cost much.  There a first answer does without the `gap`; only where it
    would be accepted, and the gap is wider, vectors are followed until it is not.
    """

    tolerance: float
    gap: float
    in_two: bool
    most: int = 30
    hasty: int = 8  # steps of a first answer, at most

    @classmethod
    def of(cls, like: Float[Tensor, "k n"]) -> Pursuit:
        single, few = like.dtype == torch.float32, like.shape[1] <= FEW_STATES
        if few:
            return cls(5e-5, 1e-3, False) if single else cls(1e-10, 1e-6, False)
        return cls(2e-4, 1e-2, True) if single else cls(1e-7, 1e-4, True)


class Normaliser(Protocol):
    """log Z / N from above, as a function of scores and duals."""

    @property
    def weights(self) -> Tensor | None:
        """By how much each offset counts; None: all alike."""

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Tensors of its own whose gradients it wants to see after an evaluation."""

    @property
    def recordable(self) -> bool:
        """Whether an evaluation always does the same work, so that a GPU can replay it."""

    @property
    def noise(self) -> Tensor | float:
        """By how much the last value may be off beside rounding."""

    def __call__(
        self, scores: NeighbourScores, duals: Float[Tensor, "k c"]
    ) -> Float[Tensor, ""]: ...

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """Take the gradients of the leaves in."""

    def prepare(self, scores: NeighbourScores, duals: Float[Tensor, "k c"]) -> None:
        """Gets ready for a training that begins with these scores."""

    def converged(self) -> bool:
        """Whether evaluating once more, from where the last evaluation ended, would not help."""

    def insist(self) -> None:
        """Take whatever it needs in what is left of this evaluation."""

    def rewind(self) -> None:
        """Start the next evaluation from the committed vectors."""

    def commit(self) -> None:
        """Keep the vectors that the last evaluation ended with."""

    def state(self) -> dict[str, Tensor]:
        """The committed vectors."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""


@final
class StarNormaliser:
    """The stars of [Jernite, Rush, Sontag 2015]; every value is a bound, and nothing is kept."""

    weights: Tensor | None = None
    leaves: tuple[Tensor, ...] = ()
    recordable = True
    noise = 0.0

    def __call__(self, scores: NeighbourScores, duals: Tensor) -> Tensor:
        return star_log_partition(*scores.pairwise, duals)

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """Nothing."""

    def prepare(self, scores: NeighbourScores, duals: Tensor) -> None:
        """Nothing."""

    def converged(self) -> bool:
        return True

    def insist(self) -> None:
        """Nothing."""

    def rewind(self) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing."""


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
        weights: Float[Tensor, " k"],
        like: Float[Tensor, "k n"],
        *,
        recorded: bool = False,
    ) -> None:
        self.lay = lay
        self.weights: Tensor = weights
        self.left = torch.zeros_like(like).requires_grad_(True)
        self.right = torch.zeros_like(like).requires_grad_(True)
        self.committed = PerronVectors.ones(like)
        self.recordable = recorded
        self.pursuit = Pursuit.of(like)
        self.patient = not self.pursuit.in_two
        self.excess = 0.0  # of the proven limit over the value, when it was followed last
        self.noise = like.new_zeros(())

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return self.left, self.right

    @property
    def vectors(self) -> PerronVectors:
        return PerronVectors(self.left.detach(), self.right.detach())

    def __call__(self, scores: NeighbourScores, duals: Tensor) -> Tensor:
        matrices = self.lay(scores, duals)
        if self.recordable:
            vectors, before = power_steps(matrices, self.vectors, STEPS_UNSEEN)
        else:
            vectors, before = self._followed(matrices, self.patient)
        self._keep(vectors)
        value = self._value(matrices)
        first, second = before @ self.weights
        self.noise.copy_(_left_of_error(first, second, value.detach()))
        return value

    def _followed(
        self, matrices: PowerScores, patient: bool
    ) -> tuple[PerronVectors, Float[Tensor, "2 k"]]:
        way = self.pursuit
        gap, most = (way.gap, way.most) if patient else (math.inf, way.hasty)
        vectors, found = follow(matrices, self.vectors, tolerance=way.tolerance, most=most, gap=gap)
        self.excess = float((found[2] - found[0]) @ self.weights)
        return vectors, found[:2]

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
        self._keep(self._followed(self.lay(scores, duals), True)[0])

    def converged(self) -> bool:
        if self.recordable:
            most = DRIFT_UNSEEN if self.noise.dtype == torch.float32 else self.pursuit.tolerance
            return float(self.noise) <= most
        return self.patient or self.excess <= self.pursuit.gap

    def insist(self) -> None:
        self.patient = True

    def rewind(self) -> None:
        self.patient = not self.pursuit.in_two
        self._copy(self.committed, self.vectors)

    def commit(self) -> None:
        self._copy(self.vectors, self.committed)

    def state(self) -> dict[str, Tensor]:
        return {"left": self.committed.left, "right": self.committed.right}

    def restore(self, state: dict[str, Tensor]) -> None:
        self._copy(PerronVectors(state["left"], state["right"]), self.committed)

    def _keep(self, vectors: PerronVectors) -> None:
        self._copy(vectors.normalised(), self.vectors)

    @staticmethod
    @torch.no_grad()
    def _copy(vectors: PerronVectors, into: PerronVectors) -> None:
        into.left.copy_(vectors.left)
        into.right.copy_(vectors.right)


def chain_normaliser(
    weights: Float[Tensor, " k"], like: Float[Tensor, "k c"], *, recorded: bool = False
) -> SpectralNormaliser:
    """Chains of these weights; `like` has the shape and the kind of their duals."""

    def lay(scores: NeighbourScores, duals: Tensor) -> PowerScores:
        return ChainCover.of(*scores.pairwise, duals, weights)

    return SpectralNormaliser(lay, weights, like, recorded=recorded)


def window_normaliser(like: Float[Tensor, " c"]) -> SpectralNormaliser:
    """Windows of two words, which have no duals."""

    def lay(scores: NeighbourScores, duals: Tensor) -> PowerScores:
        del duals
        return WindowScores.of(scores)

    return SpectralNormaliser(lay, like.new_ones(1), like.new_zeros(1, len(like) ** 2))


def _left_of_error(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """What a sequence that converges geometrically would still move by in one more step."""
    before, after = (second - first).abs(), (third - second).abs()
    return after * (after / before.clamp_min(torch.finfo(after.dtype).tiny)).clamp_max(1.0)


def _logarithm(values: Tensor) -> Tensor:
    # A word too rare for its type's smallest number keeps that number instead of dying out.
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


# Minus a lower bound on the log-likelihood of a corpus, per position, on one flat vector.


DUALS = "duals"
FAR_ABOVE = 1e-2  # nats per position above the accepted value: no penalty makes up for so much


@final
@dataclass(frozen=True, eq=False)
class Frequencies:
    """Moments divided by the number of positions, as tensors."""

    unary: Float[Tensor, " c"]
    pairs: tuple[SparseMatrix, ...]  # one an offset, rows for the left word
    triples: tuple[Int[Tensor, " t"], Float[Tensor, " t"]] | None = None

    @classmethod
    def of(cls, moments: Moments, like: Tensor) -> Frequencies:
        positions, triples = moments.positions, None
        unary = torch.from_numpy(moments.unary / positions).to(like)
        shares = (
            csr_array((pair.count / positions, (pair.left, pair.right)), (moments.states,) * 2)
            for pair in moments.pairs
        )
        pairs = tuple(SparseMatrix.of(share, like.dtype, like.device) for share in shares)
        if moments.triples is not None:
            codes = torch.from_numpy(moments.triples.codes).to(like.device)
            triples = codes, torch.from_numpy(moments.triples.count / positions).to(like)
        return cls(unary, pairs, triples)

    def mean_score(self, scores: NeighbourScores) -> Float[Tensor, ""]:
        """The mean over positions of all scores: <moments, theta>."""
        mean = (self.unary * scores.unary).sum(dtype=torch.float64)
        mean = mean + pair_expectation(scores.left, scores.right, self.pairs)
        if scores.triples is None:
            return mean
        if self.triples is None:
            raise DataError(
                "this model scores three words in a row, which these moments do not count; count "
                "the text itself."
            )
        codes, shares = self.triples
        return mean + (shares * scores.triples.flatten()[codes]).sum(dtype=torch.float64)


@final
class LiftedBound(Objective[Tensor]):
    """Minus the bound as an objective of the flat vector of parameters and duals.

    On a GPU an evaluation by stars or chains is recorded once and replayed.
    """

    def __init__(
        self,
        model: NeighbourModel,
        frequencies: Frequencies,
        normaliser: Normaliser,
        duals: Float[Tensor, "k c"],
    ) -> None:
        self.model, self.frequencies, self.normaliser = model, frequencies, normaliser
        self.duals = duals
        self.log_partition = duals.new_zeros(())
        self.latest: Tensor | None = None  # the vector that was evaluated last
        self.value = self.accepted = torch.tensor(torch.inf, dtype=torch.float64)
        with torch.no_grad():
            normaliser.prepare(model.scores(), duals)
            normaliser.commit()
        self._run = (
            recorded(self._evaluate, self.start) if normaliser.recordable else self._evaluate
        )

    @cached_property
    def layout(self) -> Layout:
        return Layout.of({**self.model.parameters(), DUALS: self.duals})

    @property
    def start(self) -> Float[Tensor, " p"]:
        return self.layout.flatten({**self.model.parameters(), DUALS: self.duals}).detach()

    def at(self, vector: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """The vector itself: it holds duals beside the model (see `unpack`)."""
        return vector

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        self.normaliser.rewind()
        for _ in range(MOST_REPEATS):
            value, gradient = self._run(vector)
            # What has not converged is too low: where it is high, nobody will go there.
            if self.normaliser.converged() or float(value) > float(self.accepted) + FAR_ABOVE:
                break
            self.normaliser.insist()
        self.latest, self.value = vector.clone(), value.clone()
        return Evaluation(value, gradient, self.normaliser.noise)

    def commit(self) -> None:
        """Keep the warm start of the last evaluation."""
        self.accepted = self.value
        self.normaliser.commit()

    def state(self) -> dict[str, Tensor]:
        """The committed warm start."""
        return {"accepted": self.accepted, **self.normaliser.state()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.accepted = state["accepted"]
        self.normaliser.restore({n: own for n, own in state.items() if n != "accepted"})

    def _evaluate(self, vector: Float[Tensor, " p"]) -> tuple[Tensor, Tensor]:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            model, duals = self.unpack(leaf)
            scores = model.scores()
            log_partition = self.normaliser(scores, duals)
            value = log_partition - self.frequencies.mean_score(scores)
        gradient, *others = torch.autograd.grad(value, [leaf, *self.normaliser.leaves])
        self.normaliser.learn(others)
        self.log_partition.copy_(log_partition.detach())
        return value.detach(), gradient

    def unpack(self, vector: Float[Tensor, " p"]) -> tuple[NeighbourModel, Float[Tensor, "k c"]]:
        """The model and the duals of a vector."""
        parameters = self.layout.unflatten(vector)
        duals = parameters.pop(DUALS)
        return self.model.with_parameters(parameters), duals

    @torch.no_grad()
    def validation_bound(self, vector: Float[Tensor, " p"], valid: Frequencies) -> float:
        """The bound per position of other moments.

        log Z is the same for every corpus, so at the vector that was evaluated last this costs only
        the sparse mean score.
        """
        if self.latest is None or not torch.equal(self.latest, vector):
            self(vector)
        model, _ = self.unpack(vector)
        score = valid.mean_score(model.scores())
        return float(score - self.log_partition)


def word_scaling(bound: LiftedBound, moments: Moments, smoothing: float) -> Diagonal:
    """For each parameter the square root of one over its curvature, roughly.

    The bound bends along a parameter of a word in proportion to the word's frequency, from 5 % to
    one in a million, and along pair scores in proportion to 1 / weight of their offset, because
    chains divide by the weights; undone by this scaling, L-BFGS needs a fraction of the steps.
    """
    shapes = dict(zip(bound.layout.names, bound.layout.shapes, strict=True))
    frequency = torch.from_numpy(moments.unary / moments.positions).to(bound.duals.device)
    weights = bound.normaliser.weights
    word = (frequency + smoothing).rsqrt()
    offset = word.new_ones(1) if weights is None else weights.to(word).sqrt()
    by_offset = offset.view(-1, 1, 1)
    by_each = len(shapes.get("right", ())) == 3
    # Tables and triples grow as squares and cubes of the vocabulary: made only where they are used.
    shaped: dict[str, Callable[[], Tensor]] = {
        "unary": lambda: word,
        "table": lambda: by_offset * word.unsqueeze(1) * word,
        "left": lambda: word.unsqueeze(1),
        "right": lambda: word.unsqueeze(1) * (by_offset if by_each else 1),
        "transitions": lambda: by_offset,
        # The geometric mean: triples that occur are far more frequent than if words were free.
        "triples": lambda: (word.view(-1, 1, 1) * word.unsqueeze(1) * word) ** (1 / 3),
        DUALS: lambda: word,
    }
    return Diagonal(
        torch.cat(
            [
                (shaped[name]() if name in shaped else word.new_ones(())).expand(shape).reshape(-1)
                for name, shape in shapes.items()
            ]
        )
    )
