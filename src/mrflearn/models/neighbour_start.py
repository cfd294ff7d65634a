"""A starting point for low-rank models: the leading singular vectors of weighted log-ratios.

With free tables the best pair scores are known in closed form: rho_l log( m_l(x, y) / m(x) m(y) ),
rho_l the weight of the offset in the bound.  Each log-ratio matters as sqrt(m(x) m(y)), and pairs
never seen are left at zero, so that the matrix to take apart is sparse.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array, hstack
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from mrflearn.features.moments import Moments
from mrflearn.models.neighbour_lm import LowRankPairs, NeighbourModel

SMOOTHING = 1e-4  # of word frequencies: vectors of rare words start short


def log_frequencies(moments: Moments, like: Tensor) -> Float[Tensor, "c"]:
    """The unary scores of independent words; one never seen counts as half the rarest seen.

    So that a text said twice has the same scores as said once.
    """
    frequency = moments.unary / moments.positions
    floor = frequency[frequency > 0].min() / 2
    return torch.from_numpy(np.log(np.maximum(frequency, floor))).to(like)


def spectral_start(
    moments: Moments, dims: int, weights: Float[Tensor, "k"], seed: int, like: Tensor
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
