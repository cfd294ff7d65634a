"""The best assignments of chains laid out by `Steps`: Viterbi, and the n best of each sequence.

Letters in shapes as in `chain_scaled`; m: how many assignments are kept.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps

LARGEST_BLOCK = 2**18  # candidate scores held at once: a block should stay in the cache


def viterbi(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> tuple[Int[Tensor, "r"], Float[Tensor, "b"]]:
    """A best state for each row and its score for each sequence (-inf: nothing is possible)."""
    paths, scores = n_best(unary, transition, steps, 1)
    return paths[:, 0], scores[:, 0]


def n_best(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps, count: int
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first, and their scores.

    Where there are fewer, the rest score -inf and their states mean nothing.
    """
    best = unary.new_full((len(unary), unary.shape[1], count), -torch.inf)
    came_from = torch.zeros(best.shape, dtype=torch.int64, device=unary.device)
    for t, rows in enumerate(steps.slices):
        if not t:
            best[rows, :, 0] = unary[rows]
            continue
        before = best[steps.slices[t - 1]][: steps.sizes[t]]
        own = slice(rows.start - steps.starting, rows.stop - steps.starting)
        table = transition if transition.ndim == 2 else transition[own]
        _advance(before, table, best[rows], came_from[rows])
        best[rows] += unary[rows, :, None]
    return _trace(best, came_from, steps)


def _advance(before: Tensor, table: Tensor, best: Tensor, came_from: Tensor) -> None:
    """For each state the best (state before, place in its list) pairs, numbered state * m + m'."""
    _, states, count = before.shape
    block = max(1, LARGEST_BLOCK // (states * states * count))
    for first in range(0, len(before), block):
        part = slice(first, first + block)
        own = table if table.ndim == 2 else table[part]
        if count == 1:
            value, place = (before[part] + own).max(dim=1)
            best[part], came_from[part] = value[..., None], place[..., None]
        else:
            turned = own.transpose(-1, -2)[..., None]  # to, from, place
            candidates = (before[part][:, None] + turned).flatten(2)
            best[part], came_from[part] = candidates.topk(count, dim=2)


def _trace(best: Tensor, came_from: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    count = best.shape[2]
    scores = best.new_zeros(len(steps.lengths), count)
    scores[:, 1:] = -torch.inf  # a sequence of length 0 has one assignment, the empty one
    choice = came_from.new_zeros(len(steps.lengths), count)  # state * m + place, by rank
    paths = came_from.new_zeros(len(best), count)
    sizes = (*steps.sizes, 0)
    for t in range(len(steps.sizes) - 1, -1, -1):
        going, size = sizes[t + 1], sizes[t]
        if going:
            after = came_from[steps.slices[t + 1]].flatten(1)
            choice[:going] = after.gather(1, choice[:going])
        if size > going:
            ending = best[steps.slices[t]][going:].flatten(1)
            scores[steps.order[going:size]], choice[going:size] = ending.topk(count, dim=1)
        paths[steps.slices[t]] = choice[:size] // count
    return paths, scores
