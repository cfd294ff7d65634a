"""What a hidden Markov model says of sentences, as plain lists: tags, probabilities, n best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import NDArray

from mrflearn.kernels import lattice
from mrflearn.kernels import lattice as lattice_best
from mrflearn.kernels import lattice as lattice_sums
from mrflearn.models.hmm import PackedLattices


def best_tags(laid: PackedLattices, names: Sequence[str]) -> list[list[str]]:
    """The most probable tags of each sentence."""
    path = lattice.viterbi(laid.tags.lattice)
    nodes = np.concatenate([np.zeros(0, dtype=np.int64), *path])
    return _named(laid.tags.tag[nodes], laid, names)


def tag_shares(laid: PackedLattices, tags: int) -> list[NDArray[np.float64]]:
    """For each sentence a table of probabilities, tokens by tags."""
    rows = np.zeros((len(laid.steps), tags))
    if len(rows):
        _, chance = lattice_sums.marginals(laid.tags.lattice)
        np.add.at(rows, (laid.tags.row, laid.tags.tag), chance)
    return np.split(_in_order(rows, laid), np.cumsum(laid.steps.lengths.numpy())[:-1])


def best_lists(
    laid: PackedLattices, names: Sequence[str], count: int
) -> list[list[tuple[list[str], float]]]:
    """The `count` best (tags, probability) of each sentence; fewer where there are fewer."""
    lengths = laid.steps.lengths.tolist()
    lists: list[list[tuple[list[str], float]]] = [[([], 1.0)] if not n else [] for n in lengths]
    if not len(laid.steps):
        return lists
    path, scores = lattice_best.n_best(laid.tags.lattice, count)
    chance = np.exp(scores - lattice_sums.log_partition(laid.tags.lattice)[:, None])
    nodes = np.concatenate(path)
    named = [_named(laid.tags.tag[nodes[:, rank]], laid, names) for rank in range(count)]
    for place, own in zip(laid.steps.order.tolist(), chance.tolist(), strict=False):
        lists[place] = [(named[rank][place], share) for rank, share in enumerate(own) if share > 0]
    return lists


def _named(
    tags: Int[np.ndarray, " r"], laid: PackedLattices, names: Sequence[str]
) -> list[list[str]]:
    flat = [names[tag] for tag in _in_order(tags, laid).tolist()]
    ends = np.cumsum(laid.steps.lengths.numpy()).tolist()
    return [flat[end - n : end] for n, end in zip(laid.steps.lengths.tolist(), ends, strict=True)]


def _in_order(
    rows: Shaped[np.ndarray, " r *s"], laid: PackedLattices
) -> Shaped[np.ndarray, " r *s"]:
    """Rows in the order of the caller's tokens."""
    result = np.empty_like(rows)
    result[laid.steps.source.numpy()] = rows
    return result
