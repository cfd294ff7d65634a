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
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.recording import recorded
from mrflearn.features.moments import Moments, ring_of
from mrflearn.features.spelling import SpellingTable
from mrflearn.features.tagged_sentences import JointMoments
from mrflearn.graph.lifted import CENTRE, TagPotentials, WordPotentials
from mrflearn.graph.trigrams import TrigramPotentials
from mrflearn.inference.lifted import LiftedInference
from mrflearn.inference.perron import onward
from mrflearn.kernels.low_rank import SparseMatrix
from mrflearn.models.lifted import NAMES, TRANSITIONS, JointTaggerModel, NeighbourModel
from mrflearn.objectives.base import Evaluation, Layout, Objective, Vector
from mrflearn.objectives.problem import Diagonal

# What a text says of a field: how often each score counts, per position.


class Frequencies(Protocol):
    """Moments divided by the number of positions, as tensors."""

    def mean_score(self, potentials: Any) -> Float[Tensor, ""]:
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
        shares = (pair.matrix(moments.states) / positions for pair in moments.pairs)
        pairs = tuple(SparseMatrix.of(share, like.dtype, like.device) for share in shares)
        if moments.triples is not None:
            codes = torch.from_numpy(moments.triples.codes).to(like.device)
            triples = codes, torch.from_numpy(moments.triples.count / positions).to(like)
        return cls(unary, pairs, triples)

    def mean_score(self, potentials: WordPotentials) -> Float[Tensor, ""]:
        mean = (self.unary * potentials.unary).sum(dtype=torch.float64)
        for pair, left, right in zip(self.pairs, *potentials.factors(), strict=True):
            mean = mean + (left * (pair @ right)).sum(dtype=torch.float64)
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
        total, words = moments.positions, {}
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


M = TypeVar("M")
MOST_REPEATS = 10
FAR_ABOVE = 1e-2  # nats per position above the accepted value: no penalty makes up for so much


@final
class LiftedLikelihood(Objective[M]):
    """Minus the log-likelihood per position, or minus a lower bound on it.

    On a GPU an evaluation that always does the same work is recorded once and replayed; Perron
    vectors thus stay in the same memory.
    """

    def __init__(
        self, model: M, batch: Any, frequencies: Frequencies, inference: LiftedInference[Any]
    ) -> None:
        self.model, self.batch = model, batch
        self.frequencies, self.inference = frequencies, inference
        begin = self.start
        self.noise, self.log_partition = begin.new_zeros(2, dtype=torch.float64)
        self.value = self.accepted = torch.tensor(torch.inf, dtype=torch.float64)
        self.latest: Tensor | None = None  # the vector that was evaluated last
        self._thorough = self._converged = True
        with torch.no_grad():
            warm = inference.begin(self.potentials(begin))
        # A tensor of no elements where the inference has no use for a warm start.
        self.committed = begin.new_empty(0) if warm is None else warm
        self.warm = self.committed.clone()
        self._drift, self._gap = inference.limits(self.warm)
        self._run = recorded(self._evaluate, begin) if inference.recorded else self._evaluate

    def potentials(self, vector: Vector) -> Any:
        """The potentials of the model that a vector stands for."""
        model: Any = self.at(vector)
        return model.potentials(self.batch)

    def __call__(self, vector: Vector) -> Evaluation:
        self.warm.copy_(self.committed)
        self._thorough = False
        for _ in range(MOST_REPEATS):
            value, gradient = self._run(vector)
            drifts = self._drift < torch.inf and float(self.noise) > self._drift
            if self._converged and not drifts:
                break
            # What has not converged is too low: where it is high, nobody will go there.
            if float(value) > float(self.accepted) + FAR_ABOVE:
                break
            self._thorough = True
        self.latest, self.value = vector.clone(), value.clone()
        return Evaluation(value, gradient, self.noise)

    def _evaluate(self, vector: Vector) -> tuple[Tensor, Tensor]:
        """One evaluation from `warm`, which is moved on; it may be recorded."""
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            potentials = self.potentials(leaf)
            found = self.inference(potentials, self.warm, thorough=self._thorough)
            value = found.log_partition - self.frequencies.mean_score(potentials)
        leaves = [leaf] if found.warm is None else [leaf, found.warm]
        gradient, *others = torch.autograd.grad(value, leaves)
        self._converged = found.converged
        if found.warm is not None:
            further, gap = onward(found.warm, *others)
            self.warm.copy_(further)
            self._converged = found.converged or float(gap) <= self._gap
        self.log_partition.copy_(found.log_partition.detach())
        if isinstance(found.residual, Tensor):
            self.noise.copy_(found.residual)
        return value.detach(), gradient

    def commit(self) -> None:
        """Keep the warm start of the last evaluation."""
        self.accepted = self.value
        self.committed.copy_(self.warm)

    def state(self) -> dict[str, Tensor]:
        """The committed warm start."""
        return {"accepted": self.accepted, "vectors": self.committed}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.accepted = state["accepted"]
        self.committed.copy_(state["vectors"])

    @torch.no_grad()
    def validation_bound(self, model: Any, valid: Frequencies) -> float:
        """The log-likelihood per position of a text with other frequencies, by the same bound.

        log Z is the same for every text, so for the model that was evaluated last this costs only
        the sparse mean score.
        """
        vector = self.layout.flatten(model.parameters())
        if self.latest is None or not torch.equal(self.latest, vector):
            self(vector)
        return float(valid.mean_score(model.potentials(self.batch)) - self.log_partition)


# In which units each parameter moves.


SMOOTHING = 1e-4  # of frequencies


def word_scaling(
    model: NeighbourModel, moments: Moments, weights: Float[Tensor, " k"] | None
) -> Diagonal:
    """For each parameter the square root of one over its curvature, roughly.

    The bound bends along a parameter of a word in proportion to the word's frequency, from 5 % to
    one in a million, and along pair scores in proportion to 1 / weight of their offset, because
    chains divide by the weights; undone by this scaling, L-BFGS needs a fraction of the steps.
    """
    parameters = model.parameters()
    frequency = torch.from_numpy(moments.unary / moments.positions).to(parameters["unary"].device)
    word = (frequency + SMOOTHING).rsqrt()
    offset = word.new_ones(1) if weights is None else weights.to(word).sqrt()
    by_offset = offset.view(-1, 1, 1)
    by_each = "right" in parameters and parameters["right"].ndim == 3
    # Tables and triples grow as squares and cubes of the vocabulary: made only where they are used.
    shaped: dict[str, Callable[[], Tensor]] = {
        "unary": lambda: word,
        "table": lambda: by_offset * word.unsqueeze(1) * word,
        "left": lambda: word.unsqueeze(1),
        "right": lambda: word.unsqueeze(1) * (by_offset if by_each else 1),
        "transitions": lambda: by_offset,
        # The geometric mean: triples that occur are far more frequent than if words were free.
        "triples": lambda: (word.view(-1, 1, 1) * word.unsqueeze(1) * word) ** (1 / 3),
        "duals": lambda: word,
    }
    sizes = {name: shaped[name]().expand(own.shape) for name, own in parameters.items()}
    return Diagonal(Layout.of(sizes).flatten(sizes))


def tag_scaling(
    model: JointTaggerModel, moments: JointMoments, spelling: Mapping[int, SpellingTable]
) -> Diagonal:
    """The same for weights of (feature, tag) and for transitions.

    The bound bends along a pair of a tag and a feature by how often the model expects them
    together: as often as they occur, or as the two would meet by chance.
    """
    counts = {TRANSITIONS: moments.transitions}
    for place, own in moments.words.items():
        counts[NAMES[place]] = (spelling[place].matrix.T @ own).toarray()
    curvature = {}
    for name, count in counts.items():
        own = torch.from_numpy(count / moments.positions)
        total = own.sum(dim=(-2, -1), keepdim=True)
        curvature[name] = own + own.sum(-1, keepdim=True) * own.sum(-2, keepdim=True) / total
    tags, words = moments.transitions[0].sum(1), moments.words[CENTRE].sum(axis=1)
    curvature["tag_duals"] = torch.from_numpy(tags / moments.positions)
    curvature["word_duals"] = torch.from_numpy(words / moments.positions)
    sizes = {
        name: (curvature[name] / SMOOTHING + 1).rsqrt().expand(own.shape)
        for name, own in model.parameters().items()
    }
    return Diagonal(Layout.of(sizes).flatten(sizes).to(model.transitions.device))


# The pseudolikelihood of a text: each word given its neighbours on both sides [Jernite, Rush,
# Sontag 2015, section 3; Besag 1975].


class Gaps(NamedTuple):
    """Words with their neighbours before and after, nearest first."""

    before: Int[Tensor, "n k"]
    word: Int[Tensor, " n"]
    after: Int[Tensor, "n k"]

    @classmethod
    def of(cls, ids: NDArray[np.int32], separator: int, offsets: int) -> Gaps:
        """Every word of a text, given as ids with `LINE_END_ID` after each sentence."""
        ring, *_ = ring_of(ids, separator, offsets)
        line = np.concatenate([np.full(offsets, separator), ring])
        at = np.flatnonzero(line != separator)
        steps = np.arange(1, offsets + 1)
        parts = line[at[:, None] - steps], line[at], line[at[:, None] + steps]
        return cls(*(torch.from_numpy(part) for part in parts))

    def to(self, device: torch.device) -> Gaps:
        return Gaps(*(part.to(device) for part in self))

    def split(self, size: int) -> list[Gaps]:
        """Pieces of at most so many words."""
        return [Gaps(*parts) for parts in zip(*(part.split(size) for part in self), strict=True)]


def log_conditionals(
    scores: WordPotentials | TrigramPotentials, gaps: Gaps, separator: int
) -> Float[Tensor, " n"]:
    """log p(word | all others); a word is never a separator, whose places are given."""
    figures = scores.conditional(gaps.before, gaps.after)
    banned = torch.arange(scores.states, device=figures.device) == separator
    figures = figures.masked_fill(banned, -torch.inf)
    return figures.gather(1, gaps.word.unsqueeze(1)).squeeze(1) - figures.logsumexp(1)


def pseudolikelihood_loss(separator: int) -> Callable[[NeighbourModel, Gaps], Tensor]:
    """-sum over the words of a batch of log p(word | all others)."""

    def loss(model: NeighbourModel, batch: Gaps) -> Float[Tensor, ""]:
        return -log_conditionals(model.potentials(), batch, separator).sum()

    return loss
