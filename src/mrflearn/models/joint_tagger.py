"""The joint field of words and tags: scores of near tags, and of words through their features.

[Jernite, Rush, Sontag 2015, section 6, appendix B]  A tag's score beside a word is the sum of the
weights of the word's features, so that words never seen have scores too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.lifted_scores import CENTRE, LEFT, RIGHT, TagScores, impossible
from mrflearn.kernels.sparse_product import SparseMatrix

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
    def tags(self) -> int:
        """T: how many tags there are, the separator counted in."""
        return self.transitions.shape[-1]

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

    def scores(self, features: Mapping[int, SparseMatrix]) -> TagScores:
        """What inference reads; `features` are those of the vocabulary, separator first."""
        words = {place: features[place] @ own for place, own in self.weights.items()}
        centre = words[CENTRE]
        never = impossible(len(centre), self.tags, centre.device)
        return TagScores(self.transitions, {**words, CENTRE: centre.masked_fill(never, -torch.inf)})


def places_named(names: Sequence[str]) -> tuple[int, ...]:
    """The places of stored parameters."""
    return tuple(place for place, name in NAMES.items() if name in names)
