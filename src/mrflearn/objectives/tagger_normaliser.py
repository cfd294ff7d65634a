"""The normalisers of the joint tagger: upper bounds on log Z / N, and their proofs at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.tag_scores import TagScores
from mrflearn.inference.tag_chains import (
    ChainName,
    balanced,
    chain_table,
    ring_excess,
    shares,
    subfields,
    widened,
)
from mrflearn.inference.tag_pairs import PairVectors, growth_limits, log_growth, power_steps
from mrflearn.inference.tag_stars import (
    star_log_partition,
    star_spacing,
    tag_copies,
    word_copies,
)

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
