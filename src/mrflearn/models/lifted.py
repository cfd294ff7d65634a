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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import hstack
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from mrflearn.features.moments import Moments
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, TagPotentials, WordPotentials, impossible
from mrflearn.kernels.low_rank import SparseMatrix

# The Markov random field of a text: every word bound to its neighbours at a few offsets.


# The parameters of pair scores, by their form: U W_l^T [eq. 5], U R_l W^T [eq. 4], a free table.
FORMS = {
    "low-rank": ("left", "right"),
    "bilinear": ("left", "transitions", "right"),
    "explicit": ("table",),
}


@final
@dataclass(frozen=True, eq=False)
class NeighbourModel:
    """Scores of single words, of pairs in one of the `FORMS` and, if any, of three words in a row.

    `duals` are the dual variables of a bound on log Z, which are trained with the scores.
    """

    unary: Float[Tensor, " c"]
    pairs: Mapping[str, Tensor]
    triples: Float[Tensor, "c c c"] | None = None
    duals: Float[Tensor, "k c"] | None = None

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K, for a text: how many neighbours on each side a word is bound to."""
        named = ("table", "transitions", "right")
        return len(next(self.pairs[name] for name in named if name in self.pairs))

    @property
    def word_vectors(self) -> Float[Tensor, "c d"] | None:
        """U, the vector of each word; free tables have none."""
        return self.pairs.get("left")

    def parameters(self) -> dict[str, Tensor]:
        others = {"triples": self.triples, "duals": self.duals}
        held = {name: own for name, own in others.items() if own is not None}
        return {"unary": self.unary, **self.pairs, **held}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> NeighbourModel:
        pairs = {name: parameters[name] for name in self.pairs}
        return NeighbourModel(
            parameters["unary"], pairs, parameters.get("triples"), parameters.get("duals")
        )

    def penalised(self) -> tuple[str, ...]:
        """The names of the parameters that a penalty keeps small: all but scores of words."""
        return tuple(name for name in self.parameters() if name not in ("unary", "duals"))

    def potentials(self, batch: None = None) -> WordPotentials:  # noqa: ARG002 - a ring is whole
        """What inference reads."""
        pairs = self.pairs
        if "table" in pairs:
            unit = torch.eye(self.states, dtype=self.unary.dtype, device=self.unary.device)
            factors = unit.unsqueeze(0), pairs["table"].mT
        elif "transitions" in pairs:
            factors = pairs["left"] @ pairs["transitions"], pairs["right"].unsqueeze(0)
        else:
            factors = pairs["left"].unsqueeze(0), pairs["right"]
        return WordPotentials(self.unary, *factors, self.triples, self.duals)


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
        ratios.append(pair.matrix(moments.states, values))
    rank = min(dims, moments.states)
    left, size, right = randomized_svd(hstack(ratios, format="csr"), rank, random_state=seed)
    damp = 1 / np.sqrt(frequency + SMOOTHING)
    rows = _padded(damp[:, None] * left * np.sqrt(size), dims)
    columns = (np.sqrt(size)[:, None] * right).reshape(rank, len(ratios), -1).transpose(1, 2, 0)
    columns = _padded(rho[:, None, None] ** 0.5 * damp[:, None] * columns, dims)
    pairs = {"left": torch.from_numpy(rows).to(like), "right": torch.from_numpy(columns).to(like)}
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
    """Scores of tag pairs at each distance, and weights of (feature, tag) at each place.

    `duals` are the dual variables of a bound on log Z by name, which are trained with the scores.
    """

    transitions: Float[Tensor, "k t t"]
    weights: Mapping[int, Float[Tensor, "f t"]]
    duals: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def zeros(
        cls, tags: int, distances: int, features: Mapping[int, int], like: Tensor
    ) -> JointTaggerModel:
        """A model that knows nothing, for so many features at each place."""
        weights = {place: like.new_zeros(count, tags) for place, count in features.items()}
        return cls(like.new_zeros(distances, tags, tags), weights)

    @property
    def places(self) -> tuple[int, ...]:
        """Where tags see words."""
        return tuple(self.weights)

    def parameters(self) -> dict[str, Tensor]:
        own = {NAMES[place]: weights for place, weights in self.weights.items()}
        return {TRANSITIONS: self.transitions, **own, **self.duals}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> JointTaggerModel:
        weights = {place: parameters[NAMES[place]] for place in self.weights}
        duals = {name: parameters[name] for name in self.duals}
        return JointTaggerModel(parameters[TRANSITIONS], weights, duals)

    def potentials(self, batch: Mapping[int, SparseMatrix]) -> TagPotentials:
        """What inference reads; `batch` has the features of the vocabulary, separator first."""
        words = {place: batch[place] @ own for place, own in self.weights.items()}
        centre = words[CENTRE]
        never = impossible(len(centre), centre.shape[1], centre.device)
        words[CENTRE] = centre.masked_fill(never, -torch.inf)
        return TagPotentials(self.transitions, words, **self.duals)


M = TypeVar("M", NeighbourModel, JointTaggerModel)


def moved(model: M, dtype: torch.dtype, device: torch.device) -> M:
    """The same model in other numbers, or elsewhere."""
    parameters = {name: own.to(device, dtype) for name, own in model.parameters().items()}
    return model.with_parameters(parameters)
