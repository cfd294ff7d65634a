"""Tiny fields of words and tags, and what enumerating a whole ring says of them."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from mrflearn.graph.lifted import CENTRE, PLACES, TagPotentials, impossible


def random_scores(
    distances: int, words: int, seed: int, size: float = 1.0, shape: tuple[int, int] = (3, 2)
) -> TagPotentials:
    """Scores of `shape` = (vocabulary, tags) drawn from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*of: int) -> Tensor:
        return size * torch.randn(of, generator=generator, dtype=torch.float64)

    vocabulary, tags = shape
    places = {place: normal(vocabulary, tags) for place in PLACES[words]}
    return TagPotentials(normal(distances, tags, tags), places)


def with_separators(scores: TagPotentials) -> TagPotentials:
    """The same scores, where only the first word has the first tag."""
    centre = scores.words[CENTRE]
    never = impossible(*centre.shape, centre.device)
    words = {**scores.words, CENTRE: centre.masked_fill(never, -torch.inf)}
    return TagPotentials(scores.transitions, words)


def random_duals(count: int, length: int, seed: int, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1000)
    return size * torch.randn(count, length, generator=generator, dtype=torch.float64)


def ring_score(scores: TagPotentials, tags: Tensor, words: Tensor) -> Tensor:
    """The score of each ring (one a row), term by term from the definition."""
    total = torch.zeros(len(tags), dtype=torch.float64)
    for distance, table in enumerate(scores.transitions, start=1):
        total = total + table[tags, tags.roll(-distance, 1)].sum(1)
    for place, table in scores.words.items():
        total = total + table[words.roll(-place, 1), tags].sum(1)
    return total


@cache
def all_rings(states: int, positions: int) -> Tensor:
    """Every assignment of a ring, one a row."""
    return torch.cartesian_prod(*[torch.arange(states)] * positions)


def ring_log_partition(scores: TagPotentials, positions: int) -> float:
    """log Z of a ring by enumerating all its tags and all its words."""
    both = all_rings(scores.tags * scores.vocabulary, positions)
    tags, words = both % scores.tags, both.div(scores.tags, rounding_mode="floor")
    return float(ring_score(scores, tags, words).logsumexp(0))
