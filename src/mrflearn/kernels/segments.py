"""Semi-Markov chains: sums and best paths over all ways to cut sequences into labelled segments.

A sequence is covered by segments of 1 to k positions, each with a state:

    score = sum over segments of [ begin(first position, state) + ending(last position, state)
                                   + duration(length, state) ] + sum of table(state, next state)

The recursions [Sarawagi and Cohen 2004, section 3] keep one number for each position and state;
what they sum over, windows of k positions, is held for one step at a time.  All in log space and
in double precision, for sums over positions reach `begin` and `ending` as differences.

Letters in shapes: b: sequences; n: positions of the longest; s: states; k: lengths of segments.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.gradients import once

Places = Float[Tensor, "b n s"]
Durations = Float[Tensor, "k s"]
Table = Float[Tensor, "s s"]
Lengths = Int[Tensor, " b"]

# log Z: a recursion over the last positions of segments, and one back over their first.


def log_partition(
    begin: Places, ending: Places, duration: Durations, table: Table, lengths: Lengths
) -> Float[Tensor, " b"]:
    """log Z of each sequence in float64; its gradients are expected counts; 0 for length 0."""
    scores = (own.double() for own in (begin, ending, duration, table))
    value: Tensor = _LogPartition.apply(*scores, lengths)  # type: ignore[no-untyped-call]
    return value


class Forward(NamedTuple):
    """log-sums of what comes before a segment and its beginning, and of what ends at a position."""

    begun: Places
    ended: Places
    log_partition: Float[Tensor, " b"]


def fused(duration: Durations, table: Table) -> Any:
    """The kernels of `segments_triton` where they can do windows of these sizes, or None."""
    if not table.is_cuda or find_spec("triton") is None:
        return None
    from mrflearn.kernels import segments_triton

    return segments_triton if segments_triton.fits(duration, table) else None


def forward(
    begin: Places, ending: Places, duration: Durations, table: Table, lengths: Lengths
) -> Forward:
    """The recursion along the sequences."""
    if fast := fused(duration, table):
        begun, ended = fast.forward(begin, ending, duration, table, lengths)
    else:
        begun, ended = plain_forward(begin, ending, duration, table)
    value = begin.new_zeros(len(begin))
    if begin.shape[1]:
        rows = torch.arange(len(begin), device=begin.device)
        last = ended[rows, (lengths - 1).clamp_min(0)].logsumexp(dim=1)
        value = torch.where(lengths > 0, last, 0.0)
    return Forward(begun, ended, value)


def plain_forward(
    begin: Places, ending: Places, duration: Durations, table: Table
) -> tuple[Places, Places]:
    """What `Forward` holds of every position."""
    b, n, s = begin.shape
    longest = len(duration)
    begun = begin.new_full((b, longest + n, s), -torch.inf)  # with room for windows at the start
    ended = torch.empty_like(begin)
    reversed_durations = duration.flip(0)
    for t in range(n):
        here = begin[:, t]
        if t:
            here = here + (ended[:, t - 1, :, None] + table).logsumexp(dim=1)
        begun[:, longest + t] = here
        window = begun[:, t + 1 : t + 1 + longest] + reversed_durations
        ended[:, t] = window.logsumexp(dim=1) + ending[:, t]
    return begun[:, longest:], ended


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, begin: Tensor, ending: Tensor, duration: Tensor, table: Tensor, lengths: Tensor
    ) -> Tensor:
        found = forward(begin, ending, duration, table, lengths)
        ctx.save_for_backward(begin, ending, duration, table, lengths, *found)
        return found.log_partition

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        *given, value = ctx.saved_tensors
        weight = torch.where(value > -torch.inf, outputs[0], 0.0)
        own = fused(given[2], given[3])
        counts: Any = own.backward if own else plain_backward
        return *counts(*given, value.nan_to_num(neginf=0.0), weight), None


def plain_backward(
    begin: Places,
    ending: Places,
    duration: Durations,
    table: Table,
    lengths: Lengths,
    begun: Places,
    ended: Places,
    value: Float[Tensor, " b"],
    weight: Float[Tensor, " b"],
) -> tuple[Places, Places, Durations, Table]:
    """Expected counts of beginnings, endings, lengths and moves; sequences count by weight."""
    (b, n, s), longest = begin.shape, len(duration)
    # The end of a segment and what follows it; with room for windows at the end.
    onward = begin.new_full((b, n + longest, s), -torch.inf)
    firsts, lasts = torch.zeros_like(begin), torch.zeros_like(begin)
    durations, moves = torch.zeros_like(duration), torch.zeros_like(table)
    following = begin.new_full((b, s), -torch.inf)
    for t in range(n - 1, -1, -1):
        # `following` begins at t + 1: over the states of the next segment.
        scores = table + following[:, None]
        chances, after = _shares(scores, 2)
        is_last = (lengths == t + 1)[:, None]
        after = torch.where(is_last, 0.0, after)
        onward[:, t] = ending[:, t] + after
        lasts[:, t] = (ended[:, t] + after - value[:, None]).exp() * weight[:, None]
        moves += torch.einsum("bx,bxy->xy", lasts[:, t].masked_fill(is_last, 0.0), chances)
        window = onward[:, t : t + longest] + duration
        chances, total = _shares(window, 1)
        firsts[:, t] = (begun[:, t] + total - value[:, None]).exp() * weight[:, None]
        durations += (chances * firsts[:, t, None]).sum(dim=0)
        following = begin[:, t] + total
    return firsts, lasts, durations, moves


def _shares(scores: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The softmax of scores, 0 where all are -inf, and their log-sum-exp."""
    top = scores.amax(dim=dim, keepdim=True).nan_to_num(neginf=0.0)
    weights = (scores - top).exp_()
    total = weights.sum(dim=dim, keepdim=True)
    value = (total.log() + top).squeeze(dim)
    return weights.div_(torch.where(total > 0, total, 1.0)), value


# The best segments.


def viterbi(
    begin: Places, ending: Places, duration: Durations, table: Table, lengths: Lengths
) -> list[list[tuple[int, int, int]]]:
    """The best segments of each sequence, as (first position, position after the last, state)."""
    begin, ending, duration, table = (own.double() for own in (begin, ending, duration, table))
    (b, n, s), longest = begin.shape, len(duration)
    begun = begin.new_full((b, longest + n, s), -torch.inf)
    ended, reversed_durations = torch.empty_like(begin), duration.flip(0)
    before, length = (torch.zeros(b, n, s, dtype=torch.int64, device=begin.device) for _ in "ab")
    for t in range(n):
        here = begin[:, t]
        if t:
            moved, before[:, t] = (ended[:, t - 1, :, None] + table).max(dim=1)
            here = here + moved
        begun[:, longest + t] = here
        best, place = (begun[:, t + 1 : t + 1 + longest] + reversed_durations).max(dim=1)
        ended[:, t], length[:, t] = best + ending[:, t], longest - place
    found: list[list[tuple[int, int, int]]] = []
    ended, before, length = ended.cpu(), before.cpu(), length.cpu()
    for row, stop in enumerate(lengths.tolist()):
        segments: list[tuple[int, int, int]] = []
        state = int(ended[row, stop - 1].argmax()) if stop else 0
        while stop > 0:
            start = stop - int(length[row, stop - 1, state])
            segments.append((start, stop, state))
            state, stop = int(before[row, start, state]), start
        found.append(segments[::-1])
    return found
