"""Which bound a language model is learned by, and what that needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.features.moments import Moments
from mrflearn.features.triples import MOST_STATES
from mrflearn.inference.lifted import (
    BoundName,
    Ceiling,
    chain_ceiling,
    default_weights,
    star_ceiling,
    window_ceiling,
)
from mrflearn.models.neighbour_lm import NeighbourModel
from mrflearn.objectives.lifted_normaliser import (
    Normaliser,
    SpectralNormaliser,
    StarNormaliser,
    chain_normaliser,
    window_normaliser,
)

WINDOW_START = (0.7, 0.3)  # of the two offsets, where training by windows begins
# Work grows with the cube of the words: beyond these a step takes minutes, or fills the memory.
MOST_WORDS = {"cpu": 4_000, "cuda": 20_000}


@final
@dataclass(frozen=True)
class ChosenBound:
    """A bound by name, and the weight of each offset in it, or in its start."""

    name: BoundName
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        name: BoundName,
        weights: Sequence[float] | None,
        moments: Moments,
        *,
        triples: bool = False,
    ) -> ChosenBound:
        """The bound for these moments; weights not given are the default ones."""
        offsets = len(moments.offsets)
        if triples:
            _check_triples(name, moments)
        if name == "stars":
            return cls(name, (1 / (offsets + 1),) * offsets)
        if name == "chains":
            return cls(name, _sum_one(weights, offsets))
        if name != "windows":
            raise SettingsError(f"bound {name!r} is not one of 'chains', 'stars', 'windows'.")
        if moments.offsets != ((1,), (2,)):
            raise SettingsError(
                f"windows of two words are for a context of 2, not of {moments.context}. Try "
                "chains: for a context of 1 they are as exact."
            )
        return cls(name, WINDOW_START)

    def normaliser(self, duals: Float[Tensor, "k c"]) -> Normaliser:
        """What training evaluates."""
        if self.name == "stars":
            return StarNormaliser()
        if self.name == "windows":
            _check_size(duals)
            return window_normaliser(duals[0])
        rho = torch.tensor(self.weights).to(duals)
        return chain_normaliser(rho, duals, recorded=duals.is_cuda)

    def ceiling(
        self, model: NeighbourModel, duals: Float[Tensor, "k c"], after: Normaliser | None = None
    ) -> Ceiling:
        """log Z from above, proven; `after` a training, from where its vectors are."""
        scores = model.scores()
        if self.name == "stars":
            return star_ceiling(scores, duals)
        start = after.committed.right if isinstance(after, SpectralNormaliser) else None
        if self.name == "windows":
            _check_size(duals)
            return window_ceiling(scores, start)
        return chain_ceiling(scores, duals, self.weights, start)


def _check_size(duals: Float[Tensor, "k c"]) -> None:
    states, most = duals.shape[1], MOST_WORDS[duals.device.type]
    if states > most:
        raise SettingsError(
            f"{states:,} words are too many for windows of two (at most {most:,} here). Try a GPU "
            "(device cuda), a smaller vocabulary, or chains."
        )


def _check_triples(name: BoundName, moments: Moments) -> None:
    if name != "windows":
        raise SettingsError(
            f"scores of three words in a row are bounded by windows, not by {name}: choose "
            "bound windows (it needs a context of 2)."
        )
    if moments.states > MOST_STATES:
        raise SettingsError(
            f"{moments.states:,} words have {moments.states**3:,} triples; scores of triples are "
            f"for at most {MOST_STATES} words. Try a smaller vocabulary."
        )
    if moments.triples is None:
        raise SettingsError("these moments hold no counts of triples; count the text itself.")


def _sum_one(weights: Sequence[float] | None, offsets: int) -> tuple[float, ...]:
    if weights is None:
        return default_weights(offsets)
    given = [float(weight) for weight in weights]
    if len(given) != offsets or min(given) <= 0:
        raise SettingsError(
            f"weights={list(weights)}: {offsets} offsets need {offsets} numbers above 0."
        )
    return tuple(weight / sum(given) for weight in given)
