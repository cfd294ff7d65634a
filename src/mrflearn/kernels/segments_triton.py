"""Both recursions of semi-Markov chains, each in one Triton kernel.

A program takes a sequence from end to end, with tables and expected counts in registers; its twins
in `segments` take some launches for every position.

Letters in shapes as in `segments`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language import constexpr

from mrflearn.kernels.segments import Durations, Lengths, Places, Table

LARGEST_WINDOW, LARGEST_TABLE = 2**13, 2**12  # numbers that a program holds


def fits(duration: Durations, table: Table) -> bool:
    """Whether windows and tables of these sizes fit into the registers of one program."""
    states = triton.next_power_of_2(len(table))
    window = triton.next_power_of_2(len(duration)) * states
    return bool(window <= LARGEST_WINDOW and states**2 <= LARGEST_TABLE)


def forward(
    begin: Places, ending: Places, duration: Durations, table: Table, lengths: Lengths
) -> tuple[Places, Places]:
    """log-sums of what comes before a segment and its beginning, and of what ends somewhere."""
    begun, ended = torch.full_like(begin, -torch.inf), torch.full_like(begin, -torch.inf)
    _forward_kernel[(len(begin),)](
        begin.contiguous(), ending.contiguous(), duration.contiguous(), table.contiguous(),
        lengths, begun, ended, begin.shape[1], **_sizes(duration, table),
    )  # fmt: skip
    return begun, ended


def backward(
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
    onward = torch.full_like(begin, -torch.inf)
    firsts, lasts = torch.zeros_like(begin), torch.zeros_like(begin)
    durations = begin.new_empty(len(begin), *duration.shape)
    moves = begin.new_empty(len(begin), *table.shape)
    _backward_kernel[(len(begin),)](
        begin.contiguous(), ending.contiguous(), duration.contiguous(), table.contiguous(),
        lengths, begun, ended, value, weight, onward, firsts, lasts, durations, moves,
        begin.shape[1], **_sizes(duration, table),
    )  # fmt: skip
    return firsts, lasts, durations.sum(dim=0), moves.sum(dim=0)


def _sizes(duration: Durations, table: Table) -> dict[str, int]:
    sizes = triton.next_power_of_2(len(duration)), triton.next_power_of_2(len(table))
    warps = min(8, max(1, sizes[0] * sizes[1] // 512))
    return {
        "LONGEST": len(duration),
        "STATES": len(table),
        "WINDOW": sizes[0],
        "WIDTH": sizes[1],
        "num_warps": warps,
    }


@triton.jit  # type: ignore[untyped-decorator]
def _finite(top: tl.tensor) -> tl.tensor:
    return tl.where(top > -float("inf"), top, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(
    begin: tl.tensor,
    ending: tl.tensor,
    duration: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    begun: tl.tensor,
    ended: tl.tensor,
    positions: tl.tensor,
    LONGEST: constexpr,
    STATES: constexpr,
    WINDOW: constexpr,
    WIDTH: constexpr,
) -> None:
    sequence = tl.program_id(0).to(tl.int64)
    state, size = tl.arange(0, WIDTH), tl.arange(0, WINDOW)
    inside = state < STATES
    square = inside[:, None] & inside[None, :]
    step = tl.load(table + state[:, None] * STATES + state, mask=square, other=-float("inf"))
    cell = (size < LONGEST)[:, None] & inside[None, :]
    longer = tl.load(duration + size[:, None] * STATES + state, mask=cell, other=-float("inf"))
    place = sequence * positions * STATES + state
    last = tl.full((WIDTH,), 0.0, tl.float64)
    for t in range(tl.load(lengths + sequence)):
        own = place + t * STATES
        here = tl.load(begin + own, mask=inside, other=-float("inf"))
        if t > 0:
            scores = last[:, None] + step
            top = _finite(tl.max(scores, axis=0))
            here += tl.log(tl.sum(tl.exp(scores - top[None, :]), axis=0)) + top
        tl.store(begun + own, here, mask=inside)
        tl.debug_barrier()  # windows read what other threads stored
        window = begun + (own[None, :] - size[:, None] * STATES)
        scores = tl.load(window, mask=cell & (size <= t)[:, None], other=-float("inf")) + longer
        top = _finite(tl.max(scores, axis=0))
        last = tl.log(tl.sum(tl.exp(scores - top[None, :]), axis=0)) + top
        last += tl.load(ending + own, mask=inside, other=-float("inf"))
        tl.store(ended + own, last, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(
    begin: tl.tensor,
    ending: tl.tensor,
    duration: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    begun: tl.tensor,
    ended: tl.tensor,
    value: tl.tensor,
    weight: tl.tensor,
    onward: tl.tensor,
    firsts: tl.tensor,
    lasts: tl.tensor,
    durations: tl.tensor,
    moves: tl.tensor,
    positions: tl.tensor,
    LONGEST: constexpr,
    STATES: constexpr,
    WINDOW: constexpr,
    WIDTH: constexpr,
) -> None:
    sequence = tl.program_id(0).to(tl.int64)
    state, size = tl.arange(0, WIDTH), tl.arange(0, WINDOW)
    inside = state < STATES
    square = inside[:, None] & inside[None, :]
    step = tl.load(table + state[:, None] * STATES + state, mask=square, other=-float("inf"))
    cell = (size < LONGEST)[:, None] & inside[None, :]
    longer = tl.load(duration + size[:, None] * STATES + state, mask=cell, other=-float("inf"))
    place = sequence * positions * STATES + state
    length = tl.load(lengths + sequence)
    whole, share = tl.load(value + sequence), tl.load(weight + sequence)
    following = tl.full((WIDTH,), 0.0, tl.float64)
    of_sizes = tl.full((WINDOW, WIDTH), 0.0, tl.float64)
    of_moves = tl.full((WIDTH, WIDTH), 0.0, tl.float64)
    for back in range(length):
        t = length - 1 - back
        own = place + t * STATES
        after = tl.full((WIDTH,), 0.0, tl.float64)
        chances = tl.full((WIDTH, WIDTH), 0.0, tl.float64)
        if back > 0:
            scores = step + following[None, :]
            top = _finite(tl.max(scores, axis=1))
            weights = tl.exp(scores - top[:, None])
            total = tl.sum(weights, axis=1)
            chances = weights / tl.where(total > 0, total, 1.0)[:, None]
            after = tl.log(total) + top
        here = tl.load(ended + own, mask=inside, other=-float("inf"))
        here = tl.exp(here + after - whole) * share
        tl.store(lasts + own, here, mask=inside)
        of_moves += here[:, None] * chances
        here = tl.load(ending + own, mask=inside, other=-float("inf")) + after
        tl.store(onward + own, here, mask=inside)
        tl.debug_barrier()  # windows read what other threads stored
        window = onward + (own[None, :] + size[:, None] * STATES)
        exists = cell & (size <= back)[:, None]
        scores = tl.load(window, mask=exists, other=-float("inf")) + longer
        top = _finite(tl.max(scores, axis=0))
        weights = tl.exp(scores - top[None, :])
        total = tl.sum(weights, axis=0)
        sums = tl.log(total) + top
        here = tl.load(begun + own, mask=inside, other=-float("inf"))
        here = tl.exp(here + sums - whole) * share
        tl.store(firsts + own, here, mask=inside)
        of_sizes += weights * (here / tl.where(total > 0, total, 1.0))[None, :]
        following = tl.load(begin + own, mask=inside, other=-float("inf")) + sums
    cells = durations + sequence * LONGEST * STATES + size[:, None] * STATES + state
    tl.store(cells, of_sizes, mask=cell)
    cells = moves + sequence * STATES * STATES + state[:, None] * STATES + state
    tl.store(cells, of_moves, mask=square)
