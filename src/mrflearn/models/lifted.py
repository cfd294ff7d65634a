"""Lifted models: the neighbour language model with its spectral start, and the joint tagger.

    log p(x) = sum_i [ unary(x_i) + sum_l pair_l(x_i, x_{i+l}) ] - log Z

[Jernite, Rush, Sontag 2015, section 3]  Pair scores are a table for each offset, or of low rank:
U W_l^T (eq. 5), or U R_l W^T (eq. 4).  All three read as products `left[l] @ right[l].T`, which is
the only form that inference asks for.

With free tables the best pair scores are known in closed form: rho_l log( m_l(x, y) / m(x) m(y) ),
rho_l the weight of the offset in the bound.  Each log-ratio matters as sqrt(m(x) m(y)), and pairs
never seen are left at zero, so that the matrix to take apart is sparse.

[section 6, appendix B]  In the joint field of words and tags a tag's score beside a word is the sum
of the weights of the word's features, so that words never seen have scores too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array, hstack
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from mrflearn.features.moments import Moments
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, TagPotentials, WordPotentials, impossible
from mrflearn.kernels.sparse_product import SparseMatrix

# The Markov random field of a text: every word bound to its neighbours at a few offsets.


Factors: TypeAlias = tuple[Float[Tensor, "#k c d"], Float[Tensor, "#k c d"]]


@dataclass(frozen=True, eq=False)
class PairScores(ABC):
    """Scores of two words at each offset, as products of vectors."""

    @property
    @abstractmethod
    def offsets(self) -> int:
        """How many offsets there are."""

    @abstractmethod
    def factors(self) -> Factors:
        """Left and right vectors of each offset; one entry where all offsets share them."""

    def parameters(self) -> dict[str, Tensor]:
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Self:
        return replace(self, **parameters)


@final
@dataclass(frozen=True, eq=False)
class ExplicitPairs(PairScores):
    """A free score for every pair of words at each offset; for small vocabularies."""

    table: Float[Tensor, "k c c"]

    @classmethod
    def zeros(cls, offsets: int, states: int, dtype: torch.dtype = torch.float64) -> ExplicitPairs:
        return cls(torch.zeros(offsets, states, states, dtype=dtype))

    @property
    def offsets(self) -> int:
        return len(self.table)

    def factors(self) -> Factors:
        states = self.table.shape[-1]
        unit = torch.eye(states, dtype=self.table.dtype, device=self.table.device)
        return unit.unsqueeze(0), self.table.mT


@final
@dataclass(frozen=True, eq=False)
class LowRankPairs(PairScores):
    """Scores U W_l^T: one left vector a word, one right vector a word and offset [eq. 5]."""

    left: Float[Tensor, "c d"]
    right: Float[Tensor, "k c d"]

    @property
    def offsets(self) -> int:
        return len(self.right)

    def factors(self) -> Factors:
        return self.left.unsqueeze(0), self.right


@final
@dataclass(frozen=True, eq=False)
class BilinearPairs(PairScores):
    """Scores U R_l W^T: a left and a right vector a word, one matrix an offset [eq. 4]."""

    left: Float[Tensor, "c d"]
    transitions: Float[Tensor, "k d d"]
    right: Float[Tensor, "c d"]

    @property
    def offsets(self) -> int:
        return len(self.transitions)

    def factors(self) -> Factors:
        return self.left @ self.transitions, self.right.unsqueeze(0)


@final
@dataclass(frozen=True, eq=False)
class NeighbourModel:
    """Scores of single words, of pairs and, if any, of three words in a row; frozen."""

    unary: Float[Tensor, " c"]
    pairs: PairScores
    triples: Float[Tensor, "c c c"] | None = None

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K, for a text: how many neighbours on each side a word is bound to."""
        return self.pairs.offsets

    def parameters(self) -> dict[str, Tensor]:
        triples = {} if self.triples is None else {"triples": self.triples}
        return {"unary": self.unary, **self.pairs.parameters(), **triples}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> NeighbourModel:
        others = dict(parameters)
        unary, triples = others.pop("unary"), others.pop("triples", None)
        return NeighbourModel(unary, self.pairs.with_parameters(others), triples)

    def penalised(self) -> tuple[str, ...]:
        """The names of the parameters that a penalty keeps small: all but scores of words."""
        return tuple(name for name in self.parameters() if name != "unary")

    def potentials(self, batch: None = None) -> WordPotentials:  # noqa: ARG002 - a ring is whole
        """What inference reads."""
        return WordPotentials(self.unary, *self.pairs.factors(), self.triples)


# A starting point for low-rank models: the leading singular vectors of weighted log-ratios.


SMOOTHING = 1e-4  # of word frequencies: vectors of rare words start short


def log_frequencies(moments: Moments, like: Tensor) -> Float[Tensor, " c"]:
    """The unary scores of independent words; one never seen counts as half the rarest seen.

    So that a text said twice has the same scores as said once.
    """
    frequency = moments.unary / moments.positions
    floor = frequency[frequency > 0].min() / 2
    return torch.from_numpy(np.log(np.maximum(frequency, floor))).to(like)


def spectral_start(
    moments: Moments, dims: int, weights: Float[Tensor, " k"], seed: int, like: Tensor
) -> NeighbourModel:
    """A model of [Jernite, Rush, Sontag 2015, eq. 5] near the best one of its rank."""
    rho = weights.double().cpu().numpy()
    frequency = moments.unary / moments.positions
    importance = np.sqrt(frequency)
    ratios = []
    for pair, weight in zip(moments.pairs, rho, strict=True):
        expected = frequency[pair.left] * frequency[pair.right]
        seen = np.log(pair.count / moments.positions / expected)
        values = weight**0.5 * importance[pair.left] * importance[pair.right] * seen
        shape = (moments.states, moments.states)
        ratios.append(csr_array((values, (pair.left, pair.right)), shape=shape))
    rank = min(dims, moments.states)
    left, size, right = randomized_svd(hstack(ratios, format="csr"), rank, random_state=seed)
    damp = 1 / np.sqrt(frequency + SMOOTHING)
    rows = _padded(damp[:, None] * left * np.sqrt(size), dims)
    columns = (np.sqrt(size)[:, None] * right).reshape(rank, len(ratios), -1).transpose(1, 2, 0)
    columns = _padded(rho[:, None, None] ** 0.5 * damp[:, None] * columns, dims)
    pairs = LowRankPairs(torch.from_numpy(rows).to(like), torch.from_numpy(columns).to(like))
    return NeighbourModel(log_frequencies(moments, like), pairs)


def _padded(vectors: np.ndarray, dims: int) -> np.ndarray:
    """Vectors with zeros where the vocabulary is smaller than the dimensions asked for."""
    missing = dims - vectors.shape[-1]
    return np.pad(vectors, [(0, 0)] * (vectors.ndim - 1) + [(0, missing)])


# The joint field of words and tags: scores of near tags, and of words through their features.


NAMES = {CENTRE: "centre", LEFT: "left", RIGHT: "right"}
TRANSITIONS = "transitions"


@final
@dataclass(frozen=True, eq=False)
class JointTaggerModel:
    """Scores of tag pairs at each distance, and weights of (feature, tag) at each place."""

    transitions: Float[Tensor, "k t t"]
    weights: dict[int, Float[Tensor, "f t"]]

    @classmethod
    def zeros(
        cls, tags: int, distances: int, features: Mapping[int, int], like: Tensor
    ) -> JointTaggerModel:
        """A model that knows nothing, for so many features at each place."""
        weights = {place: like.new_zeros(count, tags) for place, count in features.items()}
        return cls(like.new_zeros(distances, tags, tags), weights)

    @property
    def distances(self) -> int:
        """K: how far apart tags are bound."""
        return len(self.transitions)

    @property
    def places(self) -> tuple[int, ...]:
        """Where tags see words."""
        return tuple(self.weights)

    def parameters(self) -> dict[str, Tensor]:
        own = {NAMES[place]: weights for place, weights in self.weights.items()}
        return {TRANSITIONS: self.transitions, **own}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> JointTaggerModel:
        weights = {place: parameters[NAMES[place]] for place in self.weights}
        return JointTaggerModel(parameters[TRANSITIONS], weights)

    def potentials(self, batch: Mapping[int, SparseMatrix]) -> TagPotentials:
        """What inference reads; `batch` has the features of the vocabulary, separator first."""
        words = {place: batch[place] @ own for place, own in self.weights.items()}
        centre = words[CENTRE]
        never = impossible(len(centre), centre.shape[1], centre.device)
        words[CENTRE] = centre.masked_fill(never, -torch.inf)
        return TagPotentials(self.transitions, words)


# A model together with the dual variables of a bound on its log Z: they are moved together.


M = TypeVar("M", NeighbourModel, JointTaggerModel)


@final
@dataclass(frozen=True, eq=False)
class Dualised(Generic[M]):
    """A model and dual variables by name, as one model."""

    model: M
    duals: Mapping[str, Tensor]

    def parameters(self) -> dict[str, Tensor]:
        return {**self.model.parameters(), **self.duals}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Dualised[M]:
        own = dict(parameters)
        duals = {name: own.pop(name) for name in self.duals}
        return Dualised(self.model.with_parameters(own), duals)

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Dualised[M]:
        """The same in other numbers, or elsewhere."""
        moved = {name: value.to(device, dtype) for name, value in self.parameters().items()}
        return self.with_parameters(moved)

    def potentials(self, batch: Any) -> Any:
        """The potentials of the model, with these duals."""
        potentials: Any = self.model.potentials(batch)
        return potentials._replace(**self.duals)


def places_named(names: Sequence[str]) -> tuple[int, ...]:
    """The places of stored parameters."""
    return tuple(place for place, name in NAMES.items() if name in names)
