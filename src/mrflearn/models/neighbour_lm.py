"""The neighbour language model: word scores, pair scores, and a spectral start.

    log p(x) = sum_i [ unary(x_i) + sum_l pair_l(x_i, x_{i+l}) ] - log Z

[Jernite, Rush, Sontag 2015, section 3]  Pair scores are a table for each offset, or of low rank:
U W_l^T (eq. 5), or U R_l W^T (eq. 4).  All three read as products `left[l] @ right[l].T`, which is
the only form that inference asks for.

With free tables the best pair scores are known in closed form: rho_l log( m_l(x, y) / m(x) m(y) ),
rho_l the weight of the offset in the bound.  Each log-ratio matters as sqrt(m(x) m(y)), and pairs
never seen are left at zero, so that the matrix to take apart is sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array, hstack
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from mrflearn.features.moments import Moments
from mrflearn.graph.lifted_scores import NeighbourScores

# The Markov random field of a text: every word bound to its neighbours at a few offsets.


Factors = tuple[Float[Tensor, "#k c d"], Float[Tensor, "#k c d"]]


class PairScores(Protocol):
    """Scores of two words at each offset, as products of vectors."""

    @property
    def offsets(self) -> int:
        """How many offsets there are."""

    def parameters(self) -> dict[str, Tensor]: ...

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Self: ...

    def factors(self) -> Factors:
        """Left and right vectors of each offset; one entry where all offsets share them."""


@final
@dataclass(frozen=True, eq=False)
class ExplicitPairs:
    """A free score for every pair of words at each offset; for small vocabularies."""

    table: Float[Tensor, "k c c"]

    @classmethod
    def zeros(cls, offsets: int, states: int, dtype: torch.dtype = torch.float64) -> ExplicitPairs:
        return cls(torch.zeros(offsets, states, states, dtype=dtype))

    @property
    def offsets(self) -> int:
        return len(self.table)

    def parameters(self) -> dict[str, Tensor]:
        return {"table": self.table}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> ExplicitPairs:
        return replace(self, **parameters)

    def factors(self) -> Factors:
        states = self.table.shape[-1]
        unit = torch.eye(states, dtype=self.table.dtype, device=self.table.device)
        return unit.unsqueeze(0), self.table.mT


@final
@dataclass(frozen=True, eq=False)
class LowRankPairs:
    """Scores U W_l^T: one left vector a word, one right vector a word and offset [eq. 5]."""

    left: Float[Tensor, "c d"]
    right: Float[Tensor, "k c d"]

    @property
    def offsets(self) -> int:
        return len(self.right)

    def parameters(self) -> dict[str, Tensor]:
        return {"left": self.left, "right": self.right}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> LowRankPairs:
        return replace(self, **parameters)

    def factors(self) -> Factors:
        return self.left.unsqueeze(0), self.right


@final
@dataclass(frozen=True, eq=False)
class BilinearPairs:
    """Scores U R_l W^T: a left and a right vector a word, one matrix an offset [eq. 4]."""

    left: Float[Tensor, "c d"]
    transitions: Float[Tensor, "k d d"]
    right: Float[Tensor, "c d"]

    @property
    def offsets(self) -> int:
        return len(self.transitions)

    def parameters(self) -> dict[str, Tensor]:
        return {"left": self.left, "transitions": self.transitions, "right": self.right}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> BilinearPairs:
        return replace(self, **parameters)

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

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> NeighbourModel:
        """The same model in other numbers, or elsewhere."""
        moved = {name: value.to(device, dtype) for name, value in self.parameters().items()}
        return self.with_parameters(moved)

    def scores(self) -> NeighbourScores:
        """What inference reads."""
        return NeighbourScores(self.unary, *self.pairs.factors(), self.triples)


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
