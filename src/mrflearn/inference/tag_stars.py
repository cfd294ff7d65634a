"""An upper bound on log Z of the field of a tagged text from a covering by stars.

[Jernite, Rush, Sontag 2015, section 6, Figure 7]  A star is a tag with its K right tags and its L
words.  Centres stand s = max(K + 1, L) apart, so that s forests hold every edge once; the tags and
words between two stars are isolated nodes of the forest, and count.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.tag_scores import TagScores
from mrflearn.inference.tag_chains import balanced


def star_spacing(distances: int, places: int) -> int:
    """s: how far apart the centres of stars stand; N must be a multiple of it."""
    return max(distances + 1, places)


def tag_copies(distances: int, places: int) -> list[float]:
    """How many forests a tag is a leaf in, for each distance, isolated (if at all), a centre."""
    return [*_copies(distances, star_spacing(distances, places) - distances - 1), 1.0]


def word_copies(distances: int, places: int) -> list[float]:
    """How many forests a word is a leaf in, for each place, and isolated (if at all)."""
    return _copies(places, star_spacing(distances, places) - places)


def star_log_partition(
    scores: TagScores, tag_duals: Float[Tensor, "f t"], word_duals: Float[Tensor, "g w"]
) -> Float[Tensor, ""]:
    """An upper bound on log Z / N, whatever the duals; jointly convex in all scores."""
    distances, places = len(scores.transitions), len(scores.words)
    spacing = star_spacing(distances, places)
    of_tags = balanced(tag_duals, tag_copies(distances, places))
    of_words = balanced(word_duals, word_copies(distances, places))
    star = of_tags[-1]
    for table, dual in zip(scores.transitions, of_tags, strict=False):
        star = star + torch.logsumexp(spacing * table + dual, dim=1)
    for table, dual in zip(scores.words.values(), of_words, strict=False):
        star = star + torch.logsumexp(spacing * table + dual.unsqueeze(1), dim=0)
    total = torch.logsumexp(star, 0)
    total = total + _isolated(of_tags[distances:-1], spacing - distances - 1)
    total = total + _isolated(of_words[places:], spacing - places)
    return total / spacing


def _copies(leaves: int, isolated: int) -> list[float]:
    return [1.0] * leaves + [float(isolated)] * (isolated > 0)


def _isolated(duals: Sequence[Tensor] | Tensor, number: int) -> Tensor | float:
    return number * torch.logsumexp(duals[0], 0) if number else 0.0
