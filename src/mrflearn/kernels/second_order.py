"""Second-order chains: sums and best paths over triples of labels.

    score(y) = sum_i [ unary_i(y_i) + near(y_{i-1}, y_i) + far(y_{i-2}, y_i) ]

The recursion runs over pairs of states, in linear space and in float64; a position costs s^3.
Sequences that leave even that range, or have no possible assignment, are done again in log space.
Letters in shapes: r: rows (tokens) packed by `Steps`; s: states; b: sequences; n: tokens of one;
k: sequences that reach a step; m: assignments kept.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.kernels import chain_search
from mrflearn.kernels.chain_sums import PerSequence, Rows, Steps, Table, safe_logsumexp

# log Z of packed chains in which each state also meets the one two places before it.


# How much, in nats, may be lost on the way before it could show in the last digits of log Z.
MOST_LOST = math.log(torch.finfo(torch.float64).eps / torch.finfo(torch.float64).tiny)


def log_partition(unary: Rows, near: Table, far: Table, steps: Steps) -> PerSequence:
    """log Z of each sequence, differentiable in all tables; 0 for a sequence of length 0."""
    rows, tables = unary.double(), (near.double(), far.double())
    value, trusted = _scaled(rows, *tables, steps)
    if not bool(trusted.all()):
        # Once more without the others, whose gradients would spoil those of all.
        inside = trusted[steps.sequence]
        kept, _ = _scaled(rows[inside], *tables, Steps.of(steps.lengths[trusted]))
        together = rows[steps.sequence.argsort(stable=True)].split(steps.lengths.tolist())
        lost = (~trusted).nonzero()[:, 0].tolist()
        again = [log_partition_reference(together[sequence], *tables) for sequence in lost]
        value = torch.zeros_like(value).index_copy(0, trusted.nonzero()[:, 0], kept)
        value = value.index_copy(0, (~trusted).nonzero()[:, 0], torch.stack(again))
    return value.to(unary.dtype)


def log_partition_reference(
    unary: Float[Tensor, "n s"], near: Table, far: Table
) -> Float[Tensor, ""]:
    """log Z of one sequence in log space: the plain twin."""
    pairs = unary.new_zeros(1, 1)  # state before, state
    for place, own in enumerate(unary):
        arrived = safe_logsumexp(pairs.unsqueeze(2) + _beyond(far, place).unsqueeze(1), 0)
        pairs = arrived + own + (near if place else 0.0)
    return safe_logsumexp(pairs.flatten(), 0)


def _scaled(
    unary: Rows, near: Table, far: Table, steps: Steps
) -> tuple[PerSequence, Bool[Tensor, " b"]]:
    """log Z in linear space, and for which sequences float range was surely enough."""
    top = unary.detach().amax(dim=1)
    weight = (unary - top.unsqueeze(1)).exp()
    shifts = near.detach().amax(), far.detach().amax()
    beside, beyond = (near - shifts[0]).exp(), (far - shifts[1]).exp()
    scales: list[Tensor] = []
    pairs = weight.new_zeros(0)
    for t, rows in enumerate(steps.slices):
        if t == 0:
            pairs = weight[rows].unsqueeze(1)
        else:
            reached = pairs[: steps.sizes[t]].mT
            # The first step has no state two places before it.
            arrived = reached @ beyond if t > 1 else reached.expand(-1, -1, len(near))
            pairs = arrived * beside * weight[rows].unsqueeze(1)
        scales.append(pairs.sum(dim=(1, 2)))
        pairs = pairs / scales[-1].view(-1, 1, 1)
    if not scales:
        value = unary.sum() + unary.new_zeros(len(steps.lengths))  # keeps its place in a gradient
        return value, torch.ones_like(value, dtype=torch.bool)
    logs = torch.cat(scales).log()
    taken = [(steps.lengths - far_back).clamp_min(0) for far_back in (1, 2)]
    value = steps.totals(logs + top) + taken[0] * shifts[0] + taken[1] * shifts[1]
    # No weight exceeds 1, so nothing that was lost could have grown by more than all 1 / scale.
    lost = steps.totals(-logs.detach().clamp(max=0.0)).nan_to_num(nan=torch.inf)
    return value, (lost < MOST_LOST) & value.detach().isfinite()


# The best assignments of chains in which each state also meets the one two places before it.


def viterbi(
    unary: Rows, near: Table, far: Table, steps: Steps
) -> tuple[Int[Tensor, " r"], PerSequence]:
    """A best state for each row and the score of each sequence."""
    best: list[Tensor] = []  # by step: sequences, state before, state
    for t, rows in enumerate(steps.slices):
        if t == 0:
            best.append(unary[rows].unsqueeze(1))
            continue
        moved = _highest(best[-1][: steps.sizes[t]], _beyond(far, t))
        best.append(moved + near + unary[rows].unsqueeze(1))
    return _retrace(best, far, steps) if best else (steps.rank, unary.new_zeros(len(steps.lengths)))


def _retrace(best: list[Tensor], far: Table, steps: Steps) -> tuple[Int[Tensor, " r"], PerSequence]:
    states, scores = torch.zeros_like(steps.rank), far.new_zeros(len(steps.lengths))
    sizes = (*steps.sizes, 0)
    pair = states.new_zeros(len(steps.lengths), 2)
    for t in range(len(steps.sizes) - 1, -1, -1):
        # Where a path came from is worked out only for the states it visits, not kept for all.
        going, size = sizes[t + 1], sizes[t]
        if going:
            before, here = pair[:going].unbind(dim=1)
            row = torch.arange(going, device=far.device)
            came = best[t][row, :, before] + _beyond(far, t + 1)[:, here].t()
            pair[:going] = torch.stack([came.argmax(dim=1), before], dim=1)
        if size > going:
            scores[steps.order[going:size]], index = best[t][going:].flatten(1).max(dim=1)
            found = torch.unravel_index(index, best[t].shape[1:])
            pair[going:size] = torch.stack(found, dim=1)
        states[steps.slices[t]] = pair[:size, 1]
    return states, scores


def _beyond(far: Table, t: int) -> Float[Tensor, "a s"]:
    """The far table of the step to t; the first step has no state two places before it."""
    return far if t > 1 else far.new_zeros(1, len(far))


def _highest(before: Float[Tensor, "k a s"], far: Float[Tensor, "a s"]) -> Float[Tensor, "k s s"]:
    """The best way into each pair of states."""
    size = max(1, chain_search.LARGEST_BLOCK // (far.numel() * before.shape[2]))
    moved = [(own.unsqueeze(3) + far.unsqueeze(1)).amax(dim=1) for own in before.split(size)]
    return torch.cat(moved)


def n_best(
    unary: Rows, near: Table, far: Table, steps: Steps, count: int
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first, and their scores.

    Where there are fewer, the rest score -inf and their states mean nothing.
    """
    states = unary.shape[1]
    best = unary.new_full((len(unary), states, states, count), -torch.inf)
    came_from = torch.zeros(best.shape, dtype=torch.int64, device=unary.device)
    middle = torch.arange(states, device=unary.device)[:, None, None]
    for t, rows in enumerate(steps.slices):
        if not t:
            best[rows, 0, :, 0] = unary[rows]
            continue
        beyond = _beyond(far, t)
        lists = best[steps.slices[t - 1]][: steps.sizes[t], : len(beyond)].transpose(1, 2)
        origin = came_from[rows]
        chain_search.advance(
            lists.flatten(0, 1), beyond, best[rows].flatten(0, 1), origin.flatten(0, 1)
        )
        best[rows] += (near + unary[rows].unsqueeze(1)).unsqueeze(3)
        # Of (first, place) the pair (first, middle) and the place in its list.
        origin += (origin // count * (states - 1) + middle) * count
    paths, scores = chain_search.trace(best.flatten(1, 2), came_from.flatten(1, 2), steps)
    return paths % states, scores.double()
