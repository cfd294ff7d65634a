"""The lifted bound of the joint tagger as a function of one vector, and its log Z terms.

Parameters and dual variables move together, as in `lifted_bound`: the bound holds for any duals.
After the moments are counted the text is not read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.joint_moments import JointMoments
from mrflearn.features.spelling import SpellingTable
from mrflearn.graph.lifted_scores import CENTRE, TagScores
from mrflearn.inference.lifted_tags import (
    ChainName,
    PairVectors,
    balanced,
    chain_table,
    growth_limits,
    log_growth,
    power_steps,
    ring_excess,
    shares,
    star_log_partition,
    star_spacing,
    subfields,
    tag_copies,
    widened,
    word_copies,
)
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.joint_tagger import NAMES, TRANSITIONS, JointTaggerModel
from mrflearn.models.parameters import Layout
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.scaling import Diagonal

# The normalisers of the joint tagger: upper bounds on log Z / N, and their proofs at the end.


TaggerBoundName = Literal["exact", "chains", "stars"]
BOUNDS = ("exact", "chains", "stars")


@final
@dataclass(frozen=True)
class TagCeiling:
    """log Z <= N value + ring; `slack` is how much lower the value might be for the same duals."""

    value: float
    ring: float
    slack: float

    def per_position(self, positions: float) -> float:
        """The bound on log Z / N of a ring of N positions."""
        return self.value + self.ring / positions


class TaggerNormaliser(Protocol):
    """log Z / N from above, as a function of scores and duals."""

    multiple: int  # of which N must be a multiple

    def duals(self, scores: TagScores) -> tuple[int, int]:
        """How many dual vectors of tags and of words there are."""

    def __call__(
        self,
        scores: TagScores,
        tag_duals: Float[Tensor, "f t"],
        word_duals: Float[Tensor, "g w"],
    ) -> Float[Tensor, ""]: ...

    def ceiling(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> TagCeiling:
        """The value once more, proven in double precision."""

    def commit(self) -> None:
        """Keep the Perron vectors that the last evaluation ended with."""

    def state(self) -> dict[str, Tensor]:
        """The vectors that evaluations start from."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""


@final
class TagStars:
    """The covering of [Jernite, Rush, Sontag 2015, Figure 7]; every value is a bound."""

    def __init__(self, distances: int, places: int) -> None:
        self.multiple = star_spacing(distances, places)

    def duals(self, scores: TagScores) -> tuple[int, int]:
        shape = len(scores.transitions), len(scores.words)
        return len(tag_copies(*shape)) - 1, len(word_copies(*shape)) - 1

    def __call__(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> Tensor:
        return star_log_partition(scores, tag_duals, word_duals)

    @torch.no_grad()
    def ceiling(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> TagCeiling:
        value = star_log_partition(scores.double(), tag_duals.double(), word_duals.double())
        return TagCeiling(float(value), 0.0, 0.0)

    def commit(self) -> None:
        """Nothing: stars keep no state."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing: stars keep no state."""


@final
class TagChains:
    """Chains of tags with words summed out; Perron vectors follow the parameters."""

    multiple = 1

    def __init__(self, bound: ChainName, places: tuple[int, ...]) -> None:
        self.parts = subfields(bound, places)
        self.share = shares(self.parts)
        self._committed: list[PairVectors] = []
        self._latest: list[PairVectors] = []

    def duals(self, scores: TagScores) -> tuple[int, int]:  # noqa: ARG002
        return len(self.parts) - 1, len(self.parts) - 1

    def __call__(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> Tensor:
        total = scores.transitions.new_zeros((), dtype=torch.float64)
        tables = self._tables(scores, tag_duals, word_duals)
        self._latest = []
        for part, table, start in zip(self.parts, tables, self._starts(scores), strict=True):
            wide = widened(table)
            self._latest.append(power_steps(wide, start))
            total = total + part.weight * log_growth(wide, self._latest[-1])
        return total

    def commit(self) -> None:
        self._committed = self._latest

    def state(self) -> dict[str, Tensor]:
        sides = ("left", "right")
        return {
            f"{k}.{side}": getattr(own, side)
            for k, own in enumerate(self._committed)
            for side in sides
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        count = len(state) // 2
        self._committed = [
            PairVectors(state[f"{k}.left"], state[f"{k}.right"]) for k in range(count)
        ]

    @torch.no_grad()
    def ceiling(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> TagCeiling:
        tables = self._tables(scores.double(), tag_duals.double(), word_duals.double())
        value = ring = slack = 0.0
        for part, table, start in zip(self.parts, tables, self._starts(scores), strict=True):
            lower, upper = growth_limits(widened(table), start)
            value += part.weight * upper
            slack += part.weight * (upper - lower)
            ring += part.weight * ring_excess(table)
        return TagCeiling(value, ring, slack)

    def _tables(self, scores: TagScores, tag_duals: Tensor, word_duals: Tensor) -> list[Tensor]:
        weights = [part.weight for part in self.parts]
        of_tags, of_words = balanced(tag_duals, weights), balanced(word_duals, weights)
        rows = zip(self.parts, of_tags, of_words, strict=True)
        return [chain_table(scores, part, self.share, tag, word) for part, tag, word in rows]

    def _starts(self, scores: TagScores) -> list[PairVectors]:
        even = PairVectors.even(scores.tags, scores.transitions.device)
        return self._committed or [even for _ in self.parts]


def normaliser(bound: TaggerBoundName, distances: int, places: tuple[int, ...]) -> TaggerNormaliser:
    """The normaliser of that name."""
    return TagStars(distances, len(places)) if bound == "stars" else TagChains(bound, places)


# Minus a lower bound on the log-likelihood of a tagged text, per position, on one flat vector.


TAG_DUALS, WORD_DUALS = "tag duals", "word duals"
SMOOTHING = 1e-4  # of the frequencies that scales are made of


@final
@dataclass(frozen=True, eq=False)
class FeatureFrequencies:
    """How often each parameter's feature occurs, per position, and each tag and word."""

    of_parameters: dict[str, Tensor]
    tags: Float[Tensor, " t"]
    words: Float[Tensor, " w"]

    @classmethod
    def of(
        cls, moments: JointMoments, spelling: Mapping[int, SpellingTable], like: Tensor
    ) -> FeatureFrequencies:
        """The moments of the features: all that the bound reads of the text."""
        total = moments.positions
        found = {TRANSITIONS: torch.from_numpy(moments.transitions / total).to(like)}
        for place, counts in moments.words.items():
            of_features = (spelling[place].matrix.T @ counts).toarray() / total
            found[NAMES[place]] = torch.from_numpy(of_features).to(like)
        words = torch.from_numpy(moments.words[CENTRE].sum(axis=1) / total).to(like)
        return cls(found, found[TRANSITIONS][0].sum(1), words)


@final
class TaggerBound(Objective[Tensor]):
    """Minus the bound as an objective of the flat vector of parameters and duals."""

    def __init__(
        self,
        model: JointTaggerModel,
        features: Mapping[int, SparseMatrix],
        frequencies: FeatureFrequencies,
        normaliser: TaggerNormaliser,
    ) -> None:
        self.model, self.features, self.normaliser = model, features, normaliser
        with torch.no_grad():
            scores = model.scores(features)
        of_tags, of_words = normaliser.duals(scores)
        duals = {
            TAG_DUALS: model.transitions.new_zeros(of_tags, scores.tags),
            WORD_DUALS: model.transitions.new_zeros(of_words, scores.vocabulary),
        }
        self.duals = duals
        self._mean = self.layout.flatten({**frequencies.of_parameters, **duals})

    @cached_property
    def layout(self) -> Layout:
        return Layout.of({**self.model.parameters(), **self.duals})

    @property
    def start(self) -> Float[Tensor, " p"]:
        return self.layout.flatten({**self.model.parameters(), **self.duals}).detach()

    def at(self, vector: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """The vector itself: it holds duals beside the model (see `unpack`)."""
        return vector

    def scaling(self, frequencies: FeatureFrequencies) -> Diagonal:
        """Makes rare features as easy to move as frequent ones."""
        sizes = {name: scale_of(own) for name, own in frequencies.of_parameters.items()}
        tags, words = (len(self.duals[name]) for name in (TAG_DUALS, WORD_DUALS))
        sizes[TAG_DUALS] = _root_scale(frequencies.tags).expand(tags, -1)
        sizes[WORD_DUALS] = _root_scale(frequencies.words).expand(words, -1)
        return Diagonal(self.layout.flatten(sizes))

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            model, *duals = self.unpack(leaf)
            log_partition = self.normaliser(model.scores(self.features), *duals)
        (gradient,) = torch.autograd.grad(log_partition, leaf)
        value = log_partition.detach() - self.mean_score(vector)
        return Evaluation(value, gradient.sub_(self._mean))

    def commit(self) -> None:
        """Keep the warm start of the last evaluation."""
        self.normaliser.commit()

    def state(self) -> dict[str, Tensor]:
        """The committed warm start."""
        return self.normaliser.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.normaliser.restore(state)

    def mean_score(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """The mean over positions of all scores: <moments, parameters>."""
        return (self._mean * vector).sum(dtype=torch.float64)

    def vector_of(self, named: Mapping[str, Tensor]) -> Float[Tensor, " p"]:
        """The vector that stands for parameters and duals by name; what is not named is 0."""
        return self.layout.flatten({**self.layout.unflatten(torch.zeros_like(self._mean)), **named})

    def unpack(self, vector: Float[Tensor, " p"]) -> tuple[JointTaggerModel, Tensor, Tensor]:
        """The model and the duals of a vector."""
        parameters = self.layout.unflatten(vector)
        duals = parameters.pop(TAG_DUALS), parameters.pop(WORD_DUALS)
        return self.model.with_parameters(parameters), *duals


def scale_of(frequency: Float[Tensor, "*f t"]) -> Float[Tensor, "*f t"]:
    """The square root of one over the curvature along each parameter, roughly.

    The bound bends along a pair of a tag and a feature by how often the model expects them
    together: as often as they occur, or as the two would meet by chance.
    """
    total = frequency.sum(dim=(-2, -1), keepdim=True)
    chance = frequency.sum(-1, keepdim=True) * frequency.sum(-2, keepdim=True) / total
    return _root_scale(frequency + chance)


def _root_scale(curvature: Tensor) -> Tensor:
    return (curvature / SMOOTHING + 1).rsqrt()
