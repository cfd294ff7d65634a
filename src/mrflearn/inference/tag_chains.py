"""An upper bound on log Z of the field of a tagged text, from subfields that are chains of tags.

By convexity log Z <= sum_f rho_f log Z_f for weights rho of sum 1.  Every subfield keeps the whole
chain of tags and some of the places at which tags see words; a place that is in several subfields
is divided by the sum of their weights.  Given the tags, words are independent, so they are summed
out first; what remains is a chain of tags in which three in a row meet:

    table_f(a, b, c) = log sum_w exp( right(a, w) + centre(b, w) + left(c, w) )
                       + transition_1(b, c) + transition_2(a, c)

A ring of N tags has the partition function trace(M^N) <= states * lambda^N.  With all places in
one subfield nothing is divided, and the bound is exact up to log(states) / N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.tag_scores import CENTRE, LEFT, RIGHT, TagScores
from mrflearn.kernels.word_sums import sum_out_words

ChainName = Literal["exact", "chains"]
MOST_DISTANCES = 2


class Subfield(NamedTuple):
    """A chain of tags with the words at some places, and its weight in the mixture."""

    places: tuple[int, ...]
    weight: float


def subfields(bound: ChainName, places: Sequence[int]) -> tuple[Subfield, ...]:
    """The mixture: all places in one subfield, or the centre with each of the others in turn."""
    others = [place for place in places if place != CENTRE]
    if bound == "exact" or len(others) < 2:
        return (Subfield(tuple(places), 1.0),)
    return tuple(Subfield((CENTRE, place), 1 / len(others)) for place in others)


def shares(parts: Sequence[Subfield]) -> dict[int, float]:
    """For each place the weight of all subfields that have it."""
    places = {place for part in parts for place in part.places}
    return {p: sum(part.weight for part in parts if p in part.places) for p in places}


def chain_table(
    scores: TagScores,
    part: Subfield,
    share: dict[int, float],
    tag_dual: Float[Tensor, "t"],
    word_dual: Float[Tensor, "w"],
) -> Float[Tensor, "#t t t"]:
    """Scores of three tags in a row, words summed out; the first is not there if nothing asks."""
    if len(scores.transitions) > MOST_DISTANCES:
        raise InferenceError(
            f"chains bind tags up to {MOST_DISTANCES} apart, not {len(scores.transitions)}; "
            "stars take any distance."
        )
    nothing = scores.words[CENTRE].new_zeros(scores.vocabulary, 1)
    seen = {p: scores.words[p] / share[p] if p in part.places else nothing for p in share}
    # The tag before a word sees it at its right.
    before, at, after = seen.get(RIGHT, nothing), seen[CENTRE], seen.get(LEFT, nothing)
    table = sum_out_words(before, at + word_dual.to(at).unsqueeze(1), after).double()
    table = table + tag_dual.double().unsqueeze(1) + scores.transitions[0].double()
    if len(scores.transitions) > 1:
        table = table + scores.transitions[1].double().unsqueeze(1)
    return table


def ring_excess(table: Float[Tensor, "#t t t"]) -> float:
    """What a ring adds to N log lambda, at most: the log of the number of the chain's states."""
    tags = table.shape[1]
    return math.log(tags) if table.shape[0] == 1 else 2 * math.log(tags)


def widened(table: Float[Tensor, "#t t t"]) -> Float[Tensor, "t t t"]:
    """The same table with its first tag, whether it matters or not."""
    return table.expand(table.shape[1], -1, -1)


def balanced(free: Float[Tensor, "f x"], multiplicity: Sequence[float]) -> Float[Tensor, "f+1 x"]:
    """Duals of all copies of a node: the last is such that their weighted sum is 0."""
    weights = torch.tensor(multiplicity, dtype=free.dtype, device=free.device)
    last = -(weights[:-1] @ free) / weights[-1]
    return torch.cat([free, last.unsqueeze(0)])
