"""Best and n-best paths of packed chains, and samples of paths.

Letters in shapes as in `chain_sums`; m: how many assignments are kept; d: draws; k: rows of one
step; a: states before.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.chain_sums import Steps, scores_into
from mrflearn.kernels.compiled import VITERBI, Loop

# The best assignments of chains laid out by `Steps`: Viterbi, and the n best of each sequence.


LARGEST_BLOCK = 2**18  # candidate scores held at once: a block should stay in the cache
# Every so many steps scores are made relative to the best: those of long sequences would outgrow
# single precision, and neighbouring paths could not be told apart.
RELATIVE = 64


def viterbi(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> tuple[Int[Tensor, " r"], Float[Tensor, " b"]]:
    """A best state for each row, and the score of each sequence in float64 (-inf: impossible)."""
    if not unary.is_cuda and (fast := VITERBI.after(_seconds(unary, steps))):
        return _compiled_viterbi(fast, unary, transition, steps)
    best, far = unary.clone(), _nothing(steps)
    block = max(1, LARGEST_BLOCK // unary.shape[1] ** 2)
    for t in range(1, len(steps.sizes)):
        before = best[steps.slices[t - 1]][: steps.sizes[t]]
        here, tables = best[steps.slices[t]], steps.tables(transition, t)
        for first in range(0, len(here), block):
            part = slice(first, first + block)
            table = tables if tables.ndim == 2 else tables[part]
            here[part] += (before[part, :, None] + table).amax(dim=1)
        if t % RELATIVE == 0:
            _make_relative(here, far)
    states, scores = _walk_back(best, transition, steps)
    return states, scores + far[steps.ranks]


def _seconds(unary: Tensor, steps: Steps) -> float:
    """About what the tensor operations take: their launches, and their work."""
    return 7e-5 * len(steps.sizes) + 1e-9 * unary.shape[1] * unary.numel()


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


def _nothing(steps: Steps) -> Float[Tensor, " b"]:
    """What was taken off the scores of each sequence so far, longest sequence first."""
    return torch.zeros(len(steps.lengths), dtype=torch.float64, device=steps.rank.device)


def _make_relative(here: Float[Tensor, "k s *m"], far: Float[Tensor, " b"]) -> None:
    """Takes the best score off all of a step's, sequence by sequence, in place."""
    top = here.flatten(1).amax(dim=1)
    top = top.masked_fill(top == -torch.inf, 0.0)
    here -= top.view(-1, *[1] * (here.ndim - 1))
    far[: len(here)] += top


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
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps, count: int
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first, and their scores.

    Where there are fewer, the rest score -inf and their states mean nothing.
    """
    best, far = unary.new_full((len(unary), unary.shape[1], count), -torch.inf), _nothing(steps)
    came_from = torch.zeros(best.shape, dtype=torch.int64, device=unary.device)
    for t, rows in enumerate(steps.slices):
        if not t:
            best[rows, :, 0] = unary[rows]
            continue
        before = best[steps.slices[t - 1]][: steps.sizes[t]]
        advance(before, steps.tables(transition, t), best[rows], came_from[rows])
        best[rows] += unary[rows, :, None]
        if t % RELATIVE == 0:
            _make_relative(best[rows], far)
    paths, scores = trace(best, came_from, steps)
    return paths, scores + far[steps.ranks, None]


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


# Exact samples from chains laid out by `Steps`: filter forward, draw backward, in log space.


LARGEST_DRAW = 2**20  # numbers held at once in one step of the forward pass


def sample(
    unary: Float[Tensor, "r s"],
    transition: Float[Tensor, "*q s s"],
    steps: Steps,
    count: int,
    generator: torch.Generator,
) -> Int[Tensor, "d r"]:
    """Independent draws of all rows; where nothing is possible the states mean nothing."""
    alpha = log_forward(unary, transition, steps)
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


def log_forward(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> Float[Tensor, "r s"]:
    """The log-sum over all beginnings that end in each state of each row."""
    alpha = unary.clone()
    block = max(1, LARGEST_DRAW // unary.shape[1] ** 2)
    for t in range(1, len(steps.sizes)):
        before = alpha[steps.slices[t - 1]][: steps.sizes[t]]
        here, tables = alpha[steps.slices[t]], steps.tables(transition, t)
        for first in range(0, len(here), block):
            part = slice(first, first + block)
            table = tables if tables.ndim == 2 else tables[part]
            here[part] += torch.logsumexp(before[part, :, None] + table, dim=1)
    return alpha
