"""Minus a lower bound on the log-likelihood of a corpus, per position, on one flat vector.

The vector holds the model's parameters and the bound's dual variables, which are moved together:
the bound holds for every value of the duals, so that the inner loop of [Jernite, Rush, Sontag
2015, Algorithm 2] is not needed.  After the moments are counted the corpus is not read again, and
the value is a mean over positions, so that neither time nor result depends on the corpus' size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.recording import recorded
from mrflearn.features.moments import Moments
from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.kernels.pair_expectation import pair_expectation
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.neighbour_lm import NeighbourModel
from mrflearn.models.parameters import Layout
from mrflearn.objectives.lifted_normaliser import MOST_REPEATS, Normaliser
from mrflearn.objectives.objective import Evaluation
from mrflearn.objectives.penalties import LaidPenalty

DUALS = "duals"
FAR_ABOVE = 1e-2  # nats per position above the accepted value: no penalty makes up for so much


@final
@dataclass(frozen=True, eq=False)
class Frequencies:
    """Moments divided by the number of positions, as tensors."""

    unary: Float[Tensor, "c"]
    pairs: tuple[SparseMatrix, ...]  # one an offset, rows for the left word
    triples: tuple[Int[Tensor, "t"], Float[Tensor, "t"]] | None = None

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
class LiftedBound:
    """Minus the bound as an objective.

    Parameters are `scale * vector`; scales make words of all frequencies equally easy to move.
    On a GPU an evaluation by stars or chains is recorded once and replayed.
    """

    branches = False

    def __init__(
        self,
        model: NeighbourModel,
        frequencies: Frequencies,
        normaliser: Normaliser,
        duals: Float[Tensor, "k c"],
        smoothing: float,
    ) -> None:
        self.template, self.frequencies, self.normaliser = model, frequencies, normaliser
        parameters = {**model.parameters(), DUALS: duals}
        self.layout = Layout.of(parameters)
        scales = word_scales(parameters, frequencies.unary, smoothing, normaliser.weights)
        self.scale = self.layout.flatten(scales)
        self.start = self.layout.flatten(parameters).detach() / self.scale
        self.log_partition = duals.new_zeros(())
        self.latest: Tensor | None = None  # the vector that was evaluated last
        self.value = self.accepted = torch.tensor(torch.inf, dtype=torch.float64)
        with torch.no_grad():
            normaliser.prepare(model.scores(), duals)
            normaliser.commit()
        self._run = (
            recorded(self._evaluate, self.start) if normaliser.recordable else self._evaluate
        )

    def __call__(self, vector: Float[Tensor, "p"]) -> Evaluation:
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

    def _evaluate(self, vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            model, duals = self.at(leaf)
            scores = model.scores()
            log_partition = self.normaliser(scores, duals)
            value = log_partition - self.frequencies.mean_score(scores)
        gradient, *others = torch.autograd.grad(value, [leaf, *self.normaliser.leaves])
        self.normaliser.learn(others)
        self.log_partition.copy_(log_partition.detach())
        return value.detach(), gradient

    def at(self, vector: Float[Tensor, "p"]) -> tuple[NeighbourModel, Float[Tensor, "k c"]]:
        """The model and the duals that a vector stands for."""
        parameters = self.layout.unflatten(vector * self.scale)
        duals = parameters.pop(DUALS)
        return self.template.with_parameters(parameters), duals

    @torch.no_grad()
    def validation_bound(self, vector: Float[Tensor, "p"], valid: Frequencies) -> float:
        """The bound per position of other moments.

        log Z is the same for every corpus, so at the vector that was evaluated last this costs only
        the sparse mean score.
        """
        if self.latest is None or not torch.equal(self.latest, vector):
            self(vector)
        model, _ = self.at(vector)
        score = valid.mean_score(model.scores())
        return float(score - self.log_partition)


@final
@dataclass(frozen=True, eq=False)
class ScaledL2:
    """strength * sum w^2 over the named parameters, where w = scale * vector."""

    strength: float
    names: tuple[str, ...]
    bound: LiftedBound = field(repr=False)

    def laid_on(self, layout: Layout, like: Float[Tensor, "p"]) -> LaidPenalty:
        del layout  # that of the bare vector; the bound knows what lies where
        held = self.bound.layout.covers(self.names).to(like.device)
        return LaidPenalty(l2=(self.strength * self.bound.scale.square() * held).to(like))


def word_scales(
    parameters: Mapping[str, Tensor],
    frequency: Float[Tensor, "c"],
    smoothing: float,
    weights: Float[Tensor, "k"] | None = None,
) -> dict[str, Tensor]:
    """For each parameter the square root of one over its curvature, roughly.

    The bound bends along a parameter of a word in proportion to the word's frequency, from 5 % to
    one in a million, and along pair scores in proportion to 1 / weight of their offset, because
    chains divide by the weights; undone by these scales, L-BFGS needs a fraction of the steps.
    """
    word = (frequency + smoothing).rsqrt()
    offset = word.new_ones(1) if weights is None else weights.sqrt()
    by_offset = offset.view(-1, 1, 1)
    right = parameters.get("right")
    # Tables and triples grow as squares and cubes of the vocabulary: made only where they are used.
    shaped: dict[str, Callable[[], Tensor]] = {
        "unary": lambda: word,
        "table": lambda: by_offset * word.unsqueeze(1) * word,
        "left": lambda: word.unsqueeze(1),
        "right": lambda: (
            word.unsqueeze(1) * (by_offset if right is not None and right.ndim == 3 else 1)
        ),
        "transitions": lambda: by_offset,
        # The geometric mean: triples that occur are far more frequent than if words were free.
        "triples": lambda: (word.view(-1, 1, 1) * word.unsqueeze(1) * word) ** (1 / 3),
        DUALS: lambda: word,
    }
    return {
        name: (shaped[name]() if name in shaped else word.new_ones(())).expand(value.shape)
        for name, value in parameters.items()
    }
