"""The trigram field: words bound by vectors, and by a score of their own where they were seen.

    score(x, y, z) = unary(z) + near(y, z) + far(x, z) + triple(x, y, z)
    near = A1 R1^T + B,   far = A2 R2^T + F

B, F and the triples have a parameter for each pair or triple that the text has, and no other.
Longer n-grams, up to an order of choice, may have one each too: "order4", "order5".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.moments import Moments, sum_by_key
from mrflearn.graph.trigrams import (
    OFFSETS,
    LongerScores,
    PairScores,
    SparseScores,
    TrigramPotentials,
    find_places,
    suffix_places,
    weights_at,
)
from mrflearn.models.lifted import log_frequencies

VECTORS = ("left", "right", "far_left", "far_right")
SPARSE = ("pairs", "skips", "triples")
LONGER = ("order4", "order5")
MOST_ORDER = 5  # words of which all but one are a number of 64 bits
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

    Sparse scores are named "pairs" (next to each other), "skips" (one word between) and "triples",
    then "order4" and "order5", whose codes are described at `LongerScores`.
    """

    unary: Float[Tensor, " c"]
    vectors: Mapping[str, Float[Tensor, "c d"]]
    codes: Mapping[str, Int[Tensor, " p"]]
    sparse: Mapping[str, Float[Tensor, " p"]]
    separator: int
    suffixes: tuple[Int[Tensor, " p"], ...] = ()  # of the longer n-grams, by order

    @classmethod
    def start(
        cls, moments: Moments, dims: int, seed: int, like: Tensor, order: int = 3
    ) -> TrigramModel:
        """Independent words, with a score of 0 for all that the text has, up to an order."""
        seen, size = SeenTriples.of(moments), moments.states
        first, second, third = seen.ends(size)
        found = {
            "pairs": sum_by_key(second * size + third, seen.count)[0],
            "skips": sum_by_key(first * size + third, seen.count)[0],
            "triples": seen.codes,
        }
        found |= zip(LONGER, longer_codes(moments, seen.codes, order), strict=False)
        codes = {name: torch.from_numpy(own).to(like.device) for name, own in found.items()}
        generator = torch.Generator().manual_seed(seed)
        drawn = START * torch.randn(2, size, dims, generator=generator, dtype=torch.float64)
        left, zero = drawn.to(like), like.new_zeros(size, dims)
        vectors = dict(zip(VECTORS, (left[0], zero, left[1], zero.clone()), strict=True))
        sparse = {name: like.new_zeros(len(own)) for name, own in codes.items()}
        assert moments.separator is not None  # noqa: S101 - of `SeenTriples`
        unary = log_frequencies(moments, like)
        return cls(unary, vectors, codes, sparse, moments.separator, _suffixes(codes, size))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], separator: int) -> TrigramModel:
        """The model of its parameters, and of its codes by the names `codes.pairs` and so on."""
        vectors = {name: tensors[name] for name in VECTORS}
        names = [name for name in (*SPARSE, *LONGER) if f"codes.{name}" in tensors]
        codes = {name: tensors[f"codes.{name}"] for name in names}
        sparse = {name: tensors[name] for name in names}
        size = len(tensors["unary"])
        limits = {"pairs": size**2, "skips": size**2, "triples": size**3}
        limits |= {name: size * len(codes[below]) for below, name in pairwise(names[2:])}
        for name, own in codes.items():
            rising = bool((own.diff() > 0).all())
            known = bool(((own >= 0) & (own < limits[name])).all())
            if len(own) != len(sparse[name]) or not rising or not known:
                raise DataError(f"the codes of {name} are not those of its scores")
        suffixes = _suffixes(codes, size)
        if any(bool((own < 0).any()) for own in suffixes):
            raise DataError("the last words of a long n-gram are not listed themselves")
        model = cls(tensors["unary"], vectors, codes, sparse, separator, suffixes)
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
        return 2 + len(self.suffixes)

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
        sparse = {name: parameters[name] for name in self.sparse}
        return replace(self, unary=parameters["unary"], vectors=vectors, sparse=sparse)

    def potentials(self, batch: None = None) -> TrigramPotentials:  # noqa: ARG002 - a ring is whole
        """What inference reads."""
        held = {name: SparseScores(self.codes[name], self.sparse[name]) for name in SPARSE}
        near = PairScores(self.vectors["left"], self.vectors["right"], held["pairs"])
        far = PairScores(self.vectors["far_left"], self.vectors["far_right"], held["skips"])
        longer = tuple(
            LongerScores(self.codes[name], self.sparse[name], suffix)
            for name, suffix in zip(LONGER, self.suffixes, strict=False)
        )
        return TrigramPotentials(self.unary, near, far, held["triples"], self.separator, longer)

    def pull_back(
        self,
        near: Float[Tensor, "c c"],
        far: Float[Tensor, "c c"],
        triples: Float[Tensor, " p"],
        longer: Sequence[Float[Tensor, " p"]] = (),
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
            **dict(zip(LONGER, longer, strict=False)),
        }

    def with_scores_of(self, earlier: TrigramModel) -> TrigramModel:
        """The scores of an earlier model of the same words; what it had not seen has 0."""
        size, sparse = self.states, {}
        place = torch.zeros(0, dtype=torch.int64)
        for name, codes in self.codes.items():
            wanted = codes
            if name in LONGER:
                below = place[codes // size]
                wanted = torch.where(below < 0, -1, below * size + codes % size)
            place = find_places(earlier.codes.get(name, codes[:0]), wanted)
            sparse[name] = weights_at(earlier.sparse.get(name, self.sparse[name][:0]), place)
        return replace(self, unary=earlier.unary, vectors=earlier.vectors, sparse=sparse)

    def kept(self, chosen: Mapping[str, Tensor]) -> TrigramModel:
        """The same model with the chosen sparse scores alone, and what longer ones contain."""
        size, chosen, codes = self.states, dict(chosen), dict(self.codes)
        names = [name for name in ("triples", *LONGER) if name in codes]
        for (below, name), suffix in reversed(
            list(zip(pairwise(names), self.suffixes, strict=True))
        ):
            chosen[below] = chosen[below].clone()
            for contained in (codes[name] // size, suffix):
                chosen[below][contained[chosen[name]]] = True
        for below, name in pairwise(names):
            place = chosen[below].cumsum(0) - 1
            codes[name] = place[codes[name] // size] * size + codes[name] % size
        codes = {name: own[chosen[name]] for name, own in codes.items()}
        codes = {name: own for name, own in codes.items() if name in SPARSE or len(own)}
        sparse = {name: self.sparse[name][chosen[name]] for name in codes}
        suffixes = _suffixes(codes, size)
        return replace(self, codes=codes, sparse=sparse, suffixes=suffixes)

    def without_zeros(self) -> TrigramModel:
        """The same field in fewer numbers."""
        return self.kept({name: own != 0 for name, own in self.sparse.items()})

    def pruned(
        self,
        size: int,
        near: Float[Tensor, "c c"],
        far: Float[Tensor, "c c"],
        triples: Float[Tensor, " p"],
        longer: Sequence[Float[Tensor, " p"]] = (),
    ) -> TrigramModel:
        """The model with so many of its sparse scores, given how often the field has what.

        Those are kept without which most would be lost: p (exp(-w) - 1 + w).  What longer ones
        contain stays in any case, so that a few more may be kept.
        """
        shares = {
            "pairs": near.view(-1)[self.codes["pairs"]],
            "skips": far.view(-1)[self.codes["skips"]],
            "triples": triples,
            **dict(zip(LONGER, longer, strict=False)),
        }
        losses = {n: shares[n] * (torch.expm1(-own) + own) for n, own in self.sparse.items()}
        ranks = torch.cat(list(losses.values())).argsort(descending=True, stable=True)
        chosen = torch.zeros_like(ranks, dtype=torch.bool)
        chosen[ranks[:size]] = True
        parts = chosen.split([len(own) for own in self.sparse.values()])
        return self.kept(dict(zip(self.sparse, parts, strict=True)))

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> TrigramModel:
        """The same model elsewhere, or in other numbers."""
        parameters = {name: own.to(device, dtype) for name, own in self.parameters().items()}
        codes = {name: own.to(device) for name, own in self.codes.items()}
        suffixes = tuple(own.to(device) for own in self.suffixes)
        return replace(self, codes=codes, suffixes=suffixes).with_parameters(parameters)


def _suffixes(codes: Mapping[str, Tensor], size: int) -> tuple[Tensor, ...]:
    """Where the last words of each long n-gram are listed."""
    return tuple(suffix_places([codes[n] for n in ("triples", *LONGER) if n in codes], size))


def longer_codes(
    moments: Moments, triples: NDArray[np.int64], order: int
) -> list[NDArray[np.int64]]:
    """The codes of all longer n-grams of a text, as `LongerScores` has them."""
    return [codes for codes, _ in longer_counts(moments, triples, order)]


def longer_counts(
    moments: Moments, triples: NDArray[np.int64], order: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Codes of n-grams from order 4 on, whose triples are listed, with their counts, rising."""
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    if order <= OFFSETS + 1:
        return found
    if len(moments.longer) < order:
        raise DataError(
            f"n-grams of {order} words are counted from the text itself, not from moments: give "
            "the text, or ask for order 3."
        )
    size, (_, second, third) = moments.states, moments.longer[:3]
    codes = second.code[third.code // size] * size + third.code % size
    place = np.searchsorted(triples, codes)
    for own in moments.longer[3:order]:
        codes = place[own.code // size] * size + own.code % size
        rising = codes.argsort()
        found.append((codes[rising], own.count[rising]))
        place = np.empty_like(rising)
        place[rising] = np.arange(len(rising))
    return found
