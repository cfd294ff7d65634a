"""The trigram field: words bound by vectors, and by a score of their own where they were seen.

    score(x, y, z) = unary(z) + near(y, z) + far(x, z) + triple(x, y, z)
    near = A1 R1^T + B,   far = A2 R2^T + F

B, F and the triples have a parameter for each pair or triple that the text has, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.moments import Moments, sum_by_key
from mrflearn.graph.trigrams import PairScores, SparseScores, TrigramPotentials
from mrflearn.models.lifted import log_frequencies

VECTORS = ("left", "right", "far_left", "far_right")
SPARSE = ("pairs", "skips", "triples")
START = 0.1  # the standard deviation of left vectors at the start; right ones are 0


@final
@dataclass(frozen=True, eq=False)
class SeenTriples:
    """The triples of a text by rising codes, without those that are certain, as numbers per text.

    Certain is the second separator after the first.
    """

    codes: NDArray[np.int64]
    count: NDArray[np.int64]
    positions: int

    @classmethod
    def of(cls, moments: Moments) -> SeenTriples:
        """Those of a text of context 2."""
        if moments.triples is None or moments.separator is None:
            raise DataError(
                "these moments do not count three words in a row; count the text with triples."
            )
        moments, size, edge = moments.rounded_up(1), moments.states, moments.separator
        assert moments.triples is not None  # noqa: S101 - as above
        codes, count = moments.triples.codes, moments.triples.count
        certain = (codes % size == edge) & (codes // size % size == edge)
        return cls(codes[~certain], count[~certain], moments.positions)

    def ends(self, size: int) -> tuple[NDArray[np.int64], ...]:
        """The words of each triple."""
        return self.codes // size**2, self.codes // size % size, self.codes % size


@final
@dataclass(frozen=True, eq=False)
class TrigramModel:
    """Scores of words, vectors of words for both distances, and sparse scores with their codes.

    Sparse scores are named "pairs" (next to each other), "skips" (one word between) and "triples".
    """

    unary: Float[Tensor, " c"]
    vectors: Mapping[str, Float[Tensor, "c d"]]
    codes: Mapping[str, Int[Tensor, " p"]]
    sparse: Mapping[str, Float[Tensor, " p"]]
    separator: int

    @classmethod
    def start(cls, moments: Moments, dims: int, seed: int, like: Tensor) -> TrigramModel:
        """Independent words, with a score of 0 for all that the text has."""
        seen, size = SeenTriples.of(moments), moments.states
        first, second, third = seen.ends(size)
        found = {
            "pairs": sum_by_key(second * size + third, seen.count)[0],
            "skips": sum_by_key(first * size + third, seen.count)[0],
            "triples": seen.codes,
        }
        codes = {name: torch.from_numpy(own).to(like.device) for name, own in found.items()}
        generator = torch.Generator().manual_seed(seed)
        drawn = START * torch.randn(2, size, dims, generator=generator, dtype=torch.float64)
        left, zero = drawn.to(like), like.new_zeros(size, dims)
        vectors = dict(zip(VECTORS, (left[0], zero, left[1], zero.clone()), strict=True))
        sparse = {name: like.new_zeros(len(own)) for name, own in codes.items()}
        assert moments.separator is not None  # noqa: S101 - of `SeenTriples`
        return cls(log_frequencies(moments, like), vectors, codes, sparse, moments.separator)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], separator: int) -> TrigramModel:
        """The model of its parameters, and of its codes by the names `codes.pairs` and so on."""
        vectors = {name: tensors[name] for name in VECTORS}
        codes = {name: tensors[f"codes.{name}"] for name in SPARSE}
        sparse = {name: tensors[name] for name in SPARSE}
        model = cls(tensors["unary"], vectors, codes, sparse, separator)
        for name, own in codes.items():
            most = model.states ** (3 if name == "triples" else 2)
            rising = bool((own.diff() > 0).all())
            if (
                len(own) != len(sparse[name])
                or not rising
                or not bool(((own >= 0) & (own < most)).all())
            ):
                raise DataError(f"the codes of {name} are not those of its scores")
        if any(len(own) != model.states for own in vectors.values()):
            raise DataError("words and vectors differ in number")
        return model

    @property
    def states(self) -> int:
        """C: how many words there are, separators counted in."""
        return len(self.unary)

    @property
    def offsets(self) -> int:
        """K: how many neighbours on each side a word is bound to."""
        return 2

    @property
    def word_vectors(self) -> Float[Tensor, "c d"]:
        """The vector of each word, as the left one of its neighbours."""
        return self.vectors["left"]

    @property
    def sparse_size(self) -> int:
        """How many sparse scores there are."""
        return sum(map(len, self.sparse.values()))

    def parameters(self) -> dict[str, Tensor]:
        return {"unary": self.unary, **self.vectors, **self.sparse}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> TrigramModel:
        vectors = {name: parameters[name] for name in VECTORS}
        sparse = {name: parameters[name] for name in SPARSE}
        return replace(self, unary=parameters["unary"], vectors=vectors, sparse=sparse)

    def potentials(self, batch: None = None) -> TrigramPotentials:  # noqa: ARG002 - a ring is whole
        """What inference reads."""
        held = {name: SparseScores(self.codes[name], self.sparse[name]) for name in SPARSE}
        near = PairScores(self.vectors["left"], self.vectors["right"], held["pairs"])
        far = PairScores(self.vectors["far_left"], self.vectors["far_right"], held["skips"])
        return TrigramPotentials(self.unary, near, far, held["triples"], self.separator)

    def pull_back(
        self, near: Float[Tensor, "c c"], far: Float[Tensor, "c c"], triples: Float[Tensor, " p"]
    ) -> dict[str, Tensor]:
        """The gradient by the parameters of what has these gradients by the scores."""
        return {
            "unary": near.sum(0),
            "left": near @ self.vectors["right"],
            "right": near.T @ self.vectors["left"],
            "far_left": far @ self.vectors["far_right"],
            "far_right": far.T @ self.vectors["far_left"],
            "pairs": near.view(-1)[self.codes["pairs"]],
            "skips": far.view(-1)[self.codes["skips"]],
            "triples": triples,
        }

    def with_scores_of(self, earlier: TrigramModel) -> TrigramModel:
        """The scores of an earlier model of the same words; what it had not seen has 0."""
        held = {name: SparseScores(earlier.codes[name], earlier.sparse[name]) for name in SPARSE}
        sparse = {name: held[name].at(own) for name, own in self.codes.items()}
        return replace(self, unary=earlier.unary, vectors=earlier.vectors, sparse=sparse)

    def kept(self, chosen: Mapping[str, Tensor]) -> TrigramModel:
        """The same model with the chosen sparse scores alone."""
        codes = {name: own[chosen[name]] for name, own in self.codes.items()}
        sparse = {name: own[chosen[name]] for name, own in self.sparse.items()}
        return replace(self, codes=codes, sparse=sparse)

    def without_zeros(self) -> TrigramModel:
        """The same field in fewer numbers."""
        return self.kept({name: own != 0 for name, own in self.sparse.items()})

    def pruned(
        self,
        size: int,
        near: Float[Tensor, "c c"],
        far: Float[Tensor, "c c"],
        triples: Float[Tensor, " p"],
    ) -> TrigramModel:
        """The model with so many of its sparse scores, given how often the field has what.

        Those are kept without which most would be lost: p (exp(-w) - 1 + w).
        """
        shares = {
            "pairs": near.view(-1)[self.codes["pairs"]],
            "skips": far.view(-1)[self.codes["skips"]],
            "triples": triples,
        }
        losses = {n: shares[n] * (torch.expm1(-own) + own) for n, own in self.sparse.items()}
        ranks = torch.cat([losses[name] for name in SPARSE]).argsort(descending=True, stable=True)
        chosen = torch.zeros_like(ranks, dtype=torch.bool)
        chosen[ranks[:size]] = True
        parts = chosen.split([len(self.sparse[name]) for name in SPARSE])
        return self.kept(dict(zip(SPARSE, parts, strict=True)))

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> TrigramModel:
        """The same model elsewhere, or in other numbers."""
        parameters = {name: own.to(device, dtype) for name, own in self.parameters().items()}
        codes = {name: own.to(device) for name, own in self.codes.items()}
        return replace(self, codes=codes).with_parameters(parameters)
