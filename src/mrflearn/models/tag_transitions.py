"""Which tag comes next: trigrams or bigrams of tags, smoothed by deleted interpolation.

Letters in shapes: t: tags; x: tags and the edge of a sentence; c: contexts; g: counted trigrams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

from mrflearn.features.tag_counts import TagCounts

Numbers: TypeAlias = Int[np.ndarray, "n"]


@final
@dataclass(frozen=True, eq=False)
class TagTransitions:
    """`log_probability[context[u, v]]` is of the tag after u and v, in nats; the last is the edge.

    Trigram contexts that were never seen share the row of their second tag.
    """

    context: Int[np.ndarray, "x x"]
    log_probability: Float[np.ndarray, "c x"]
    weights: tuple[float, ...]

    @property
    def edge(self) -> int:
        """The number of the edge of a sentence."""
        return len(self.context) - 1


def tag_transitions(counts: TagCounts, order: int) -> TagTransitions:
    """Interpolated transitions: of order 2 after two tags, of order 1 after one."""
    size = len(counts.tags) + 1
    first, second, third, times = counts.trigram.T
    unigram = _table(third, times, size)
    bigram = _table(second * size + third, times, size**2).reshape(size, size)
    levels = [_shares(unigram[None]), _shares(bigram)]
    weights = deleted_interpolation(counts, order)
    if order == 1:
        context = np.broadcast_to(np.arange(size), (size, size))
        return TagTransitions(context, _mixed(levels, weights), weights)
    pairs, row = np.unique(first * size + second, return_inverse=True)
    context = np.broadcast_to(np.arange(size), (size, size)).copy()
    context.reshape(-1)[pairs] = size + np.arange(len(pairs))
    trigram = _table(row * size + third, times, len(pairs) * size).reshape(-1, size)
    # Rows: every second tag behind an unseen first one, then every pair that was seen.
    levels[1] = levels[1][np.concatenate([np.arange(size), pairs % size])]
    levels.append(np.concatenate([np.zeros((size, size)), _shares(trigram)]))
    return TagTransitions(context, _mixed(levels, weights), weights)


def deleted_interpolation(counts: TagCounts, order: int) -> tuple[float, ...]:
    """The weights of unigrams, bigrams (and trigrams), which sum to 1.

    Each n-gram votes, as often as it occurs, for the order that would foretell it best were this
    one occurrence not counted [Brants 2000, figure 1].  Ties share the vote, and each order has
    one vote to begin with, so that nothing is impossible.
    """
    size = len(counts.tags) + 1
    first, second, third, times = counts.trigram.T
    pair = second * size + third
    votes = [
        _left_out(_table(third, times, size)[third], np.full(len(third), times.sum())),
        _left_out(_table(pair, times, size**2)[pair], _table(second, times, size)[second]),
    ]
    if order == 2:
        before = first * size + second
        votes.append(_left_out(times, _table(before, times, size**2)[before]))
    shares = np.stack(votes)
    best = shares == shares.max(axis=0)
    total = 1.0 + ((best / best.sum(axis=0)) * times).sum(axis=1)
    return tuple((total / total.sum()).tolist())


def _left_out(count: Numbers, context: Numbers) -> Float[np.ndarray, "g"]:
    result: Float[np.ndarray, "g"] = (count - 1) / np.maximum(context - 1, 1)
    return result


def _table(place: Numbers, times: Numbers, size: int) -> Numbers:
    return np.bincount(place, weights=times, minlength=size).astype(np.int64)


def _shares(counts: Int[np.ndarray, "c x"]) -> Float[np.ndarray, "c x"]:
    result: Float[np.ndarray, "c x"] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return result


def _mixed(
    levels: list[Float[np.ndarray, "_ x"]], weights: tuple[float, ...]
) -> Float[np.ndarray, "c x"]:
    mixed = np.zeros_like(levels[-1])
    for weight, level in zip(weights, levels, strict=True):
        mixed += weight * level
    # A context that was never seen has no shares of its own: the other levels take its weight.
    result: Float[np.ndarray, "c x"] = np.log(mixed / mixed.sum(axis=1, keepdims=True))
    return result
