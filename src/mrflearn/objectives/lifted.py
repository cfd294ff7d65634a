"""The likelihood of a text under a lifted field, as a function of one vector.

    value = log Z / N - <frequencies, potentials>

log Z is bounded from above, or exact, as the inference says.  The vector holds the model's
parameters and the bound's dual variables, which are moved together: the bound holds for every value
of the duals, so that the inner loop of [Jernite, Rush, Sontag 2015, Algorithm 2] is not needed.
After the moments are counted the text is not read again, and the value is a mean over positions, so
that neither time nor result depends on the text's size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.recording import recorded
from mrflearn.features.joint_moments import JointMoments
from mrflearn.features.moments import Moments
from mrflearn.features.spelling import SpellingTable
from mrflearn.graph.lifted import CENTRE, TagPotentials, WordPotentials
from mrflearn.inference.lifted import LiftedInference
from mrflearn.inference.perron import PerronVectors
from mrflearn.kernels.sparse_product import SparseMatrix, pair_expectation
from mrflearn.models.lifted import NAMES, TRANSITIONS, JointTaggerModel, NeighbourModel
from mrflearn.models.parameters import Layout
from mrflearn.objectives.objective import Evaluation
from mrflearn.objectives.penalties import LaidPenalty

# What a text says of a field: how often each score counts, per position.

P = TypeVar("P", WordPotentials, TagPotentials)


class Frequencies(Protocol[P]):
    """Moments divided by the number of positions, as tensors."""

    def mean_score(self, potentials: P) -> Float[Tensor, ""]:
        """The mean over positions of all scores: <frequencies, potentials>."""


@final
@dataclass(frozen=True, eq=False)
class WordFrequencies:
    """Of words, of pairs at each offset and, if counted, of triples."""

    unary: Float[Tensor, " c"]
    pairs: tuple[SparseMatrix, ...]  # one per offset, rows for the left word
    triples: tuple[Int[Tensor, " t"], Float[Tensor, " t"]] | None = None

    @classmethod
    def of(cls, moments: Moments, like: Tensor) -> WordFrequencies:
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

    def mean_score(self, potentials: WordPotentials) -> Float[Tensor, ""]:
        mean = (self.unary * potentials.unary).sum(dtype=torch.float64)
        mean = mean + pair_expectation(potentials.left, potentials.right, self.pairs)
        if potentials.triples is None:
            return mean
        if self.triples is None:
            raise DataError(
                "this model scores three words in a row, which these moments do not count; count "
                "the text itself."
            )
        codes, shares = self.triples
        return mean + (shares * potentials.triples.flatten()[codes]).sum(dtype=torch.float64)


@final
@dataclass(frozen=True, eq=False)
class TagFrequencies:
    """Of tag pairs at each distance, and of (word, tag) pairs at each place, by their codes."""

    transitions: Float[Tensor, "k t t"]
    words: dict[int, tuple[Int[Tensor, " n"], Float[Tensor, " n"]]]

    @classmethod
    def of(cls, moments: JointMoments, like: Tensor) -> TagFrequencies:
        total = moments.positions
        words = {}
        for place, counts in moments.words.items():
            entries = counts.tocoo()
            codes = entries.row.astype("int64") * counts.shape[1] + entries.col
            shares = torch.from_numpy(entries.data / total).to(like)
            words[place] = torch.from_numpy(codes).to(like.device), shares
        return cls(torch.from_numpy(moments.transitions / total).to(like), words)

    def mean_score(self, potentials: TagPotentials) -> Float[Tensor, ""]:
        mean = (self.transitions * potentials.transitions).sum(dtype=torch.float64)
        for place, (codes, shares) in self.words.items():
            seen = potentials.words[place].flatten().gather(0, codes)
            mean = mean + (shares * seen).sum(dtype=torch.float64)
        return mean


# The objective.


M = TypeVar("M", NeighbourModel, JointTaggerModel)
MOST_REPEATS = 10
FAR_ABOVE = 1e-2  # nats per position above the accepted value: no penalty makes up for so much


@final
class LiftedLikelihood(Generic[M]):
    """Minus the log-likelihood per position, or minus a lower bound on it.

    Parameters and duals are `scale * vector`; scales make words and features of all frequencies
    equally easy to move.  On a GPU an evaluation that always does the same work is recorded once
    and replayed; Perron vectors thus stay in the same memory.
    """

    branches = False

    def __init__(
        self,
        model: M,
        batch: Any,
        frequencies: Frequencies[Any],
        inference: LiftedInference[Any],
        duals: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
    ) -> None:
        self.template, self.batch = model, batch
        self.frequencies, self.inference, self._duals = frequencies, inference, tuple(duals)
        parameters = {**model.parameters(), **duals}
        self.layout = Layout.of(parameters)
        self.scale = self.layout.flatten(scales)
        self.start = self.layout.flatten(parameters).detach() / self.scale
        self.noise, self.log_partition = self.scale.new_zeros(2, dtype=torch.float64)
        self.value = self.accepted = torch.tensor(torch.inf, dtype=torch.float64)
        self.latest: Tensor | None = None  # the vector that was evaluated last
        self._thorough, self._drift, self._converged = True, torch.inf, True
        with torch.no_grad():
            self.committed = inference.begin(model.potentials(batch)._replace(**duals))
        self.warm = None if self.committed is None else self.committed.clone()
        evaluate = self._evaluate
        self._run = recorded(evaluate, self.start) if inference.recorded else evaluate

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        if self.warm is not None and self.committed is not None:
            self.warm.copy_(self.committed)
        self._thorough = False
        for _ in range(MOST_REPEATS):
            value, gradient = self._run(vector)
            drifts = self._drift < torch.inf and float(self.noise) > self._drift
            # What has not converged is too low: where it is high, nobody will go there.
            if (self._converged and not drifts) or float(value) > float(self.accepted) + FAR_ABOVE:
                break
            self._thorough = True
        self.latest, self.value = vector.clone(), value.clone()
        return Evaluation(value, gradient, self.noise)

    def _evaluate(self, vector: Float[Tensor, " p"]) -> tuple[Tensor, Tensor]:
        """One evaluation from `warm`, which is moved on; it may be recorded."""
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            potentials = self.potentials(leaf)
            found = self.inference(potentials, self.warm, thorough=self._thorough)
            value = found.log_partition - self.frequencies.mean_score(potentials)
        gradient, *others = torch.autograd.grad(value, [leaf, *found.leaves])
        further = found.onward(others)
        if self.warm is not None and further is not None:
            self.warm.copy_(further)
        self._drift, self._converged = found.drift, found.converged
        self.log_partition.copy_(found.log_partition.detach())
        if isinstance(found.noise, Tensor):
            self.noise.copy_(found.noise)
        return value.detach(), gradient

    def commit(self) -> None:
        """Keep the warm start of the last evaluation."""
        self.accepted = self.value
        if self.warm is not None and self.committed is not None:
            self.committed.copy_(self.warm)

    def state(self) -> dict[str, Tensor]:
        """The committed warm start."""
        vectors = self.committed
        held = {} if vectors is None else {"left": vectors.left, "right": vectors.right}
        return {"accepted": self.accepted, **held}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.accepted = state["accepted"]
        if self.committed is not None:
            self.committed.copy_(PerronVectors(state["left"], state["right"]))

    def named(self, vector: Float[Tensor, " p"]) -> dict[str, Tensor]:
        """The parameters and duals that a vector stands for."""
        return self.layout.unflatten(vector * self.scale)

    def at(self, vector: Float[Tensor, " p"]) -> tuple[M, dict[str, Tensor]]:
        """The model and the duals that a vector stands for."""
        parameters = self.named(vector)
        duals = {name: parameters.pop(name) for name in self._duals}
        return self.template.with_parameters(parameters), duals

    def potentials(self, vector: Float[Tensor, " p"]) -> Any:
        """The potentials, with their duals, that a vector stands for."""
        model, duals = self.at(vector)
        return model.potentials(self.batch)._replace(**duals)

    @torch.no_grad()
    def validation_bound(self, vector: Float[Tensor, " p"], valid: Frequencies[Any]) -> float:
        """The log-likelihood per position, bounded alike, of a text with other frequencies.

        log Z is the same for every text, so at the vector that was evaluated last this costs only
        the sparse mean score.
        """
        if self.latest is None or not torch.equal(self.latest, vector):
            self(vector)
        return float(valid.mean_score(self.potentials(vector)) - self.log_partition)


@final
@dataclass(frozen=True, eq=False)
class LiftedL2:
    """The sum over named parameters of strength * w^2, where w = scale * vector."""

    strengths: Mapping[str, float]
    objective: LiftedLikelihood[Any] = field(repr=False)

    def laid_on(self, layout: Layout, like: Float[Tensor, " p"]) -> LaidPenalty:
        del layout  # that of the bare vector; the objective knows what lies where
        sizes = self.objective.layout.unflatten(self.objective.scale.square())
        parts = [self.strengths.get(name, 0.0) * size.flatten() for name, size in sizes.items()]
        return LaidPenalty(l2=torch.cat(parts).to(like))


# Objectives of texts and of tagged texts: in which units each parameter moves.


SMOOTHING = 1e-4  # of frequencies in the scales of parameters


def word_likelihood(
    model: NeighbourModel,
    moments: Moments,
    inference: LiftedInference[WordPotentials],
    duals: Float[Tensor, "k c"],
    smoothing: float = SMOOTHING,
) -> LiftedLikelihood[NeighbourModel]:
    """The objective of a text."""
    frequencies = WordFrequencies.of(moments, duals)
    parameters = {**model.parameters(), "duals": duals}
    scales = word_scales(parameters, frequencies.unary, smoothing, inference.weights)
    return LiftedLikelihood(model, None, frequencies, inference, {"duals": duals}, scales)


def word_scales(
    parameters: Mapping[str, Tensor],
    frequency: Float[Tensor, " c"],
    smoothing: float,
    weights: Float[Tensor, " k"] | None = None,
) -> dict[str, Tensor]:
    """For each parameter the square root of one over its curvature, roughly.

    The bound bends along a parameter of a word in proportion to the word's frequency, from 5 % to
    one in a million, and along pair scores in proportion to 1 / weight of their offset, because
    chains divide by the weights; undone by these scales, L-BFGS needs a fraction of the steps.
    """
    word = (frequency + smoothing).rsqrt()
    offset = word.new_ones(1) if weights is None else weights.to(word).sqrt()
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
        "duals": lambda: word,
    }
    return {
        name: (shaped[name]() if name in shaped else word.new_ones(())).expand(value.shape)
        for name, value in parameters.items()
    }


def tag_likelihood(
    model: JointTaggerModel,
    spelling: Mapping[int, SpellingTable],
    moments: JointMoments,
    inference: LiftedInference[TagPotentials],
    duals: Mapping[str, Tensor] | None = None,
) -> LiftedLikelihood[JointTaggerModel]:
    """The objective of a tagged text; duals that are not given are 0."""
    like = model.transitions
    features = {
        place: SparseMatrix.of(spelling[place].matrix, like.dtype, like.device)
        for place in model.places
    }
    with torch.no_grad():
        duals = duals or inference.duals(model.potentials(features))
    frequency = {TRANSITIONS: moments.transitions, "word_duals": moments.words[CENTRE].sum(axis=1)}
    for place, counts in moments.words.items():
        frequency[NAMES[place]] = (spelling[place].matrix.T @ counts).toarray()
    own = {n: torch.from_numpy(f / moments.positions).to(like) for n, f in frequency.items()}
    scales = {name: pair_scales(own[name]) for name in model.parameters()}
    own["tag_duals"] = own[TRANSITIONS][0].sum(1)
    for name, value in duals.items():
        scales[name] = _root_scale(own[name]).expand(value.shape)
    frequencies = TagFrequencies.of(moments, like)
    return LiftedLikelihood(model, features, frequencies, inference, duals, scales)


def pair_scales(frequency: Float[Tensor, "*f t"]) -> Float[Tensor, "*f t"]:
    """For each pair of a feature and a tag the square root of one over its curvature, roughly.

    The bound bends along a pair of a tag and a feature by how often the model expects them
    together: as often as they occur, or as the two would meet by chance.
    """
    total = frequency.sum(dim=(-2, -1), keepdim=True)
    chance = frequency.sum(-1, keepdim=True) * frequency.sum(-2, keepdim=True) / total
    return _root_scale(frequency + chance)


def _root_scale(curvature: Tensor) -> Tensor:
    return (curvature / SMOOTHING + 1).rsqrt()
