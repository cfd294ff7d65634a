"""Best and n-best paths of packed chains, and samples of paths.

Letters in shapes as in `chain_sums`; m: how many assignments are kept; d: draws; k: rows of one
step; a: states before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import PerSequence, Rows, Steps, Tables, scores_into
from mrflearn.kernels.compiled import VITERBI, Loop

# The best assignments of packed chains: Viterbi, and the n best of each sequence.


LARGEST_BLOCK = 2**18  # candidate scores held at once: a block should stay in the cache
# Every so many steps scores are made relative to the best: those of long sequences would outgrow
# single precision, and neighbouring paths could not be distinguished.
RELATIVE = 64


def viterbi(unary: Rows, transition: Tables, steps: Steps) -> tuple[Int[Tensor, " r"], PerSequence]:
    """A best state for each row, and the score of each sequence in float64 (-inf: impossible)."""
    # About what the tensor operations take: their launches, and their work.
    seconds = 7e-5 * len(steps.sizes) + 1e-9 * unary.shape[1] * unary.numel()
    if not unary.is_cuda and (fast := VITERBI.after(seconds)):
        return _compiled_viterbi(fast, unary, transition, steps)
    if fused := chain_sums.fused(unary):
        found: tuple[Tensor, Tensor] = fused.viterbi(unary, transition, steps, RELATIVE)
        return found
    best, offset = _forward(unary, transition, steps, torch.amax)
    states, scores = _walk_back(best, transition, steps)
    return states, scores + offset[steps.ranks]


def _compiled_viterbi(
    fast: Loop, unary: Tensor, transition: Tensor, steps: Steps
) -> tuple[Tensor, Tensor]:
    tables = transition if transition.ndim == 3 else transition.unsqueeze(0)
    begin = np.cumsum([0, *steps.sizes])[: len(steps.sizes)]
    path = torch.zeros(len(unary), dtype=torch.int64)
    scores = torch.zeros(len(steps.lengths), dtype=torch.float64)
    arrays = (
        own.detach().contiguous().numpy() for own in (unary, tables, steps.lengths[steps.order])
    )
    fast(*arrays, begin, RELATIVE, path.numpy(), scores.numpy())
    return path, scores[steps.ranks]


def _forward(
    unary: Rows, transition: Tables, steps: Steps, reduce: Callable[..., Tensor]
) -> tuple[Rows, PerSequence]:
    """The best (or log-sum) of all beginnings that end in each state of each row.

    With it what was taken off the scores of each sequence, longest sequence first.
    """
    message, offset = unary.clone(), _zero_offsets(steps)
    for t in range(1, len(steps.sizes)):
        before, here = message[steps.slices[t - 1]][: steps.sizes[t]], message[steps.slices[t]]
        here += _move(before, steps.tables(transition, t), reduce)
        if t % RELATIVE == 0:
            _make_relative(here, offset)
    return message, offset


def _move(
    before: Float[Tensor, "k a"], tables: Float[Tensor, "*k a s"], reduce: Callable[..., Tensor]
) -> Float[Tensor, "k s"]:
    """The best (or log-sum) of the ways into each state, over the states before."""
    block = max(1, LARGEST_BLOCK // tables.shape[-2:].numel())
    if len(before) <= block:
        return reduce(before[:, :, None] + tables, dim=1)
    rows = before.split(block)
    own = [tables] * len(rows) if tables.ndim == 2 else tables.split(block)
    return torch.cat([reduce(a[:, :, None] + b, dim=1) for a, b in zip(rows, own, strict=True)])


def _zero_offsets(steps: Steps) -> PerSequence:
    return torch.zeros(len(steps.lengths), dtype=torch.float64, device=steps.rank.device)


def _make_relative(here: Float[Tensor, "k s *m"], offset: PerSequence) -> None:
    """Takes the best score off all of a step's, sequence by sequence, in place."""
    top = here.flatten(1).amax(dim=1)
    top = top.masked_fill(top == -torch.inf, 0.0)
    here -= top.view(-1, *[1] * (here.ndim - 1))
    offset[: len(here)] += top


def _walk_back(best: Tensor, transition: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    # Where a path came from is worked out only for the states it visits, not kept for all.
    scores = best.new_zeros(len(steps.lengths))
    states = torch.zeros(len(best), dtype=torch.int64, device=best.device)
    sizes = (*steps.sizes, 0)
    for t in range(len(steps.sizes) - 1, -1, -1):
        here, going, size = best[steps.slices[t]], sizes[t + 1], sizes[t]
        chosen = states[steps.slices[t]]
        if going:
            after = states[steps.slices[t + 1]]
            step = scores_into(steps.tables(transition, t + 1), after)
            chosen[:going] = (here[:going] + step).argmax(dim=1)
        scores[steps.order[going:size]], chosen[going:] = here[going:].max(dim=1)
    return states, scores


def n_best(
    unary: Rows, transition: Tables, steps: Steps, count: int
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first, and their scores.

    Where there are fewer, the rest score -inf and their states mean nothing.
    """
    best, offset = unary.new_full((*unary.shape, count), -torch.inf), _zero_offsets(steps)
    came_from = torch.zeros(best.shape, dtype=torch.int64, device=unary.device)
    for t, rows in enumerate(steps.slices):
        if not t:
            best[rows, :, 0] = unary[rows]
            continue
        before = best[steps.slices[t - 1]][: steps.sizes[t]]
        advance(before, steps.tables(transition, t), best[rows], came_from[rows])
        best[rows] += unary[rows, :, None]
        if t % RELATIVE == 0:
            _make_relative(best[rows], offset)
    paths, scores = trace(best, came_from, steps)
    return paths, scores + offset[steps.ranks, None]


def advance(
    before: Float[Tensor, "k a m"],
    tables: Float[Tensor, "*k a s"],
    best: Float[Tensor, "k s m"],
    came_from: Int[Tensor, "k s m"],
) -> None:
    """The best m of all (state before, place in its list), numbered state * m + place."""
    states, count = before.shape[1:]
    # Lists are sorted, and are taken here in the order of their heads.  Entry b of list a has the
    # heads before its own and the entries before it as betters, a + b of them, so that only pairs
    # with a + b < m can be among the best m.
    ahead = torch.arange(count, device=before.device)
    rank, place = (ahead[:states, None] + ahead < count).nonzero().unbind(dim=1)
    block = max(1, LARGEST_BLOCK // (states * max(states, 2 * len(rank))))
    for first in range(0, len(before), block):
        part = slice(first, first + block)
        own = (tables if tables.ndim == 2 else tables[part]).transpose(-1, -2)  # to, from
        heads = before[part, None, :, 0] + own
        lists = heads.topk(min(states, count), dim=2).indices[:, :, rank]
        number = lists * count + place
        moved = own.expand_as(heads).gather(2, lists)
        moved += before[part].flatten(1).gather(1, number.flatten(1)).view_as(number)
        best[part], index = moved.topk(count, dim=2)
        came_from[part] = number.gather(2, index)


def trace(
    best: Float[Tensor, "r s m"], came_from: Int[Tensor, "r s m"], steps: Steps
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The best paths, from the best lists of every row and where their entries came from."""
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


# Exact samples of packed chains: filter forward, draw backward, in log space.


def sample(
    unary: Rows, transition: Tables, steps: Steps, count: int, generator: torch.Generator
) -> Int[Tensor, "d r"]:
    """Independent draws of all rows; where nothing is possible the states mean nothing."""
    alpha, _ = _forward(unary, transition, steps, torch.logsumexp)
    drawn = torch.zeros(count, len(unary), dtype=torch.int64, device=unary.device)
    sizes = (*steps.sizes, 0)
    for t in range(len(steps.sizes) - 1, -1, -1):
        rows, going = steps.slices[t], sizes[t + 1]
        logits = alpha[rows].expand(count, -1, -1)
        if going:
            after = drawn[:, steps.slices[t + 1]]
            step = scores_into(steps.tables(transition, t + 1), after)
            logits = torch.cat([logits[:, :going] + step, logits[:, going:]], dim=1)
        # The largest of log p + Gumbel noise is a draw from p; -inf is never the largest.
        noise = torch.empty_like(logits).exponential_(generator=generator)
        drawn[:, rows] = (logits - noise.log()).argmax(dim=-1)
    return drawn
