"""Forward, backward and Viterbi over packed chains, each in one Triton kernel.

A program takes a sequence from end to end with the transition table in registers, where the tensor
operations of `chain_sums` and `chain_search`, their twins, take some launches for every step.
Sums are in linear space, scaled at each step as the twins scale them.

Letters in shapes as in `chain_sums`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Int
from torch import Tensor
from triton.language import constexpr

from mrflearn.kernels.chain_sums import PerSequence, Rows, Steps, Tables

BYTES_IN_REGISTERS = 2**16  # of one table


def fits(rows: Rows) -> bool:
    """Whether a table of so many states fits into the registers of one program."""
    width = triton.next_power_of_2(rows.shape[1])
    return bool(len(rows)) and width * width * rows.element_size() <= BYTES_IN_REGISTERS


def forward(weight: Rows, kernel: Tables, steps: Steps) -> tuple[Rows, Tensor]:
    """The scaled messages, and by what each row was divided."""
    message, scale = torch.empty_like(weight), weight.new_empty(len(weight))
    begin, length = _places(steps)
    _forward_kernel[(steps.starting,)](
        weight, kernel, begin, length, message, scale, steps.starting, weight.shape[1],
        **_sizes(weight, kernel),
    )  # fmt: skip
    return message, scale


def backward(weight: Rows, kernel: Tables, steps: Steps) -> tuple[Rows, Rows]:
    """The scaled messages back, and these times the weights, which they take the place of."""
    message = torch.empty_like(weight)
    begin, length = _places(steps)
    _backward_kernel[(steps.starting,)](
        weight, kernel, begin, length, message, steps.starting, weight.shape[1],
        **_sizes(weight, kernel),
    )  # fmt: skip
    return message, weight


def viterbi(
    unary: Rows, transition: Tables, steps: Steps, relative: int
) -> tuple[Int[Tensor, " r"], PerSequence]:
    """A best state for each row, and the scores; each `relative` steps the best is taken off."""
    best = torch.empty_like(unary)
    path = torch.zeros(len(unary), dtype=torch.int64, device=unary.device)
    scores = torch.zeros(len(steps.lengths), dtype=torch.float64, device=unary.device)
    begin, length = _places(steps)
    _viterbi_kernel[(steps.starting,)](
        unary.contiguous(), transition.contiguous(), begin, length, best, path, scores,
        steps.starting, unary.shape[1], RELATIVE=relative, **_sizes(unary, transition),
    )  # fmt: skip
    return path, scores[steps.ranks]


def _places(steps: Steps) -> tuple[Int[Tensor, " n"], Int[Tensor, " b"]]:
    """The first row of each step, and the lengths of sequences, longest first."""
    begin = torch.tensor([rows.start for rows in steps.slices], device=steps.rank.device)
    return begin, steps.lengths[steps.order]


def _sizes(rows: Rows, kernel: Tables) -> dict[str, int | bool]:
    width = triton.next_power_of_2(rows.shape[1])
    table = width * width * rows.element_size()
    return {"WIDTH": width, "SHARED": kernel.ndim == 2, "num_warps": min(8, max(1, table // 2**13))}


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(
    weight: tl.tensor,
    table: tl.tensor,
    begin: tl.tensor,
    length: tl.tensor,
    message: tl.tensor,
    scale: tl.tensor,
    starting: tl.tensor,
    states: tl.tensor,
    WIDTH: constexpr,
    SHARED: constexpr,
) -> None:
    sequence = tl.program_id(0)
    state = tl.arange(0, WIDTH)
    inside = state < states
    cell = state[:, None] * states + state[None, :]
    square = inside[:, None] & inside[None, :]
    kernel = tl.load(table + cell, mask=square, other=0.0)
    row = tl.load(begin) + sequence
    here = tl.load(weight + row * states + state, mask=inside, other=0.0)
    total = tl.sum(here, axis=0)
    here = here / total
    tl.store(message + row * states + state, here, mask=inside)
    tl.store(scale + row, total)
    for t in range(1, tl.load(length + sequence)):
        row = tl.load(begin + t) + sequence
        if not SHARED:
            own = table + (row - starting) * states * states
            kernel = tl.load(own + cell, mask=square, other=0.0)
        moved = tl.sum(here[:, None] * kernel, axis=0)
        here = moved * tl.load(weight + row * states + state, mask=inside, other=0.0)
        total = tl.sum(here, axis=0)
        here = here / total
        tl.store(message + row * states + state, here, mask=inside)
        tl.store(scale + row, total)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(
    weight: tl.tensor,
    table: tl.tensor,
    begin: tl.tensor,
    length: tl.tensor,
    message: tl.tensor,
    starting: tl.tensor,
    states: tl.tensor,
    WIDTH: constexpr,
    SHARED: constexpr,
) -> None:
    sequence = tl.program_id(0)
    state = tl.arange(0, WIDTH)
    inside = state < states
    cell = state[:, None] * states + state[None, :]
    square = inside[:, None] & inside[None, :]
    kernel = tl.load(table + cell, mask=square, other=0.0)
    last = tl.load(length + sequence) - 1
    row = tl.load(begin + last) + sequence
    arriving = tl.load(weight + row * states + state, mask=inside, other=0.0)
    ones = tl.full((WIDTH,), 1.0, arriving.dtype)
    tl.store(message + row * states + state, ones, mask=inside)
    for k in range(last):
        if not SHARED:
            own = table + (row - starting) * states * states
            kernel = tl.load(own + cell, mask=square, other=0.0)
        here = tl.sum(kernel * arriving[None, :], axis=1)
        row = tl.load(begin + (last - 1 - k)) + sequence
        tl.store(message + row * states + state, here, mask=inside)
        arriving = here * tl.load(weight + row * states + state, mask=inside, other=0.0)
        tl.store(weight + row * states + state, arriving, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _viterbi_kernel(
    unary: tl.tensor,
    table: tl.tensor,
    begin: tl.tensor,
    length: tl.tensor,
    best: tl.tensor,
    path: tl.tensor,
    scores: tl.tensor,
    starting: tl.tensor,
    states: tl.tensor,
    RELATIVE: constexpr,
    WIDTH: constexpr,
    SHARED: constexpr,
) -> None:
    sequence = tl.program_id(0)
    state = tl.arange(0, WIDTH)
    inside = state < states
    cell = state[:, None] * states + state[None, :]
    square = inside[:, None] & inside[None, :]
    kernel = tl.load(table + cell, mask=square, other=-float("inf"))
    last = tl.load(length + sequence) - 1
    row = tl.load(begin) + sequence
    here = tl.load(unary + row * states + state, mask=inside, other=-float("inf"))
    tl.store(best + row * states + state, here, mask=inside)
    offset = tl.zeros((1,), tl.float64)
    for t in range(1, last + 1):
        row = tl.load(begin + t) + sequence
        if not SHARED:
            own = table + (row - starting) * states * states
            kernel = tl.load(own + cell, mask=square, other=-float("inf"))
        moved = tl.max(here[:, None] + kernel, axis=0)
        here = moved + tl.load(unary + row * states + state, mask=inside, other=-float("inf"))
        if t % RELATIVE == 0:
            top = tl.max(here, axis=0)
            top = tl.where(top > -float("inf"), top, 0.0)
            here = here - top
            offset += top.to(tl.float64)
        tl.store(best + row * states + state, here, mask=inside)
    tl.store(scores + sequence + tl.arange(0, 1), tl.max(here, axis=0).to(tl.float64) + offset)
    # Where a path came from is worked out only for the states it visits, not kept for all.
    tl.debug_barrier()  # what was stored by other threads of this program are read below
    chosen = tl.argmax(here, axis=0)
    tl.store(path + row, chosen.to(tl.int64))
    for k in range(last):
        own = table
        if not SHARED:
            own = table + (row - starting) * states * states
        step = tl.load(own + state * states + chosen, mask=inside, other=-float("inf"))
        row = tl.load(begin + (last - 1 - k)) + sequence
        before = tl.load(best + row * states + state, mask=inside, other=-float("inf"))
        chosen = tl.argmax(before + step, axis=0)
        tl.store(path + row, chosen.to(tl.int64))
