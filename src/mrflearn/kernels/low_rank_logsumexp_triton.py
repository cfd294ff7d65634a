"""Row log-sum-exp of low-rank scores on a GPU: Triton kernels, as accurate as float32 arithmetic.

Scores are in base 2 and products are those of `float16_halves`.  Tensor cores cut off the last
bits when they add up, so each tile's product starts from zero and is added in ordinary arithmetic.
Nothing here waits for the device, so that callers may record a CUDA graph.
"""

from __future__ import annotations

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language import constexpr

from mrflearn.kernels.float16_halves import (
    HEADROOM,
    LARGEST,
    LOG2_E,
    Halves,
    balance,
    offset_step,
    product,
    split,
    split_weighted,
    weight_scale,
)


def forward(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    *,
    means: bool,
) -> tuple[Float[Tensor, "k r"], Float[Tensor, "k r d"], tuple[Tensor, ...]]:
    """Row values, softmax means of the right vectors (if asked for), what `backward` reads."""
    offsets, rows, dims = left.shape
    halves = split(left, right, bias)
    value = left.new_empty(offsets, rows)
    mean = left.new_empty((offsets, rows, dims) if means else 0)
    shape = _shape(halves.left.shape[3])
    _forward_kernel[triton.cdiv(rows, shape["HELD"]), offsets](
        halves.left, halves.right, halves.bias, halves.norms, value, mean,
        rows, dims, halves.bias.shape[1], halves.left.stride(1),
        offset_step(halves.left), offset_step(halves.right),
        MEANS=means, **shape,
    )  # fmt: skip
    return value, mean, (left, bias, *halves)


def backward(
    value: Float[Tensor, "k r"], weight: Float[Tensor, "k r"], saved: tuple[Tensor, ...]
) -> tuple[Float[Tensor, "k c d"], Float[Tensor, "k c"]]:
    """Gradients of sum(weight * value) by the right vectors and the bias, in a pass by columns."""
    left, bias = saved[:2]
    halves = Halves(*saved[2:])
    weighted = split_weighted(left, value, weight, halves.norms)
    (offsets, columns), dims = bias.shape, left.shape[2]
    right_gradient = left.new_empty(offsets, columns, dims)
    bias_gradient = left.new_empty(offsets, columns)
    shape = _shape(halves.left.shape[3])
    _backward_kernel[triton.cdiv(columns, shape["HELD"]), offsets](
        halves.left, halves.right, halves.bias, halves.norms,
        weighted.left, weighted.rows, weighted.heaviest, right_gradient, bias_gradient,
        columns, dims, halves.bias.shape[1], weighted.rows.shape[2],
        offset_step(halves.left), offset_step(halves.right),
        **shape,
    )  # fmt: skip
    return right_gradient, bias_gradient


def _shape(width: int) -> dict[str, int]:
    """What a program holds and what it visits at a time: sizes that measured best on an H200."""
    wide = width > 64
    return {
        "WIDTH": width,
        "HELD": 64,
        "VISITED": 32 if wide else 64,
        "num_warps": 8 if width > 128 else 4,
        "num_stages": 2 if wide else 3,
    }


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(
    left: tl.tensor,
    right: tl.tensor,
    bias: tl.tensor,
    norms: tl.tensor,
    value: tl.tensor,
    mean: tl.tensor,
    rows: tl.tensor,
    dims: tl.tensor,
    padded_columns: tl.tensor,
    left_half: tl.tensor,
    left_step: tl.tensor,
    right_step: tl.tensor,
    MEANS: constexpr,
    WIDTH: constexpr,
    HELD: constexpr,
    VISITED: constexpr,
) -> None:
    """Each program holds some rows and visits all columns, sums relative to the running peak."""
    offset = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * HELD + tl.arange(0, HELD)
    dim = tl.arange(0, WIDTH)
    left += offset * left_step + row[:, None] * WIDTH + dim[None, :]
    left_high = tl.load(left)
    left_low = tl.load(left + left_half)
    column = tl.arange(0, VISITED)
    right += offset * right_step + column[:, None] * WIDTH + dim[None, :]
    right_half = padded_columns.to(tl.int64) * WIDTH
    bias += offset * padded_columns + column

    peak = tl.full([HELD], -float("inf"), tl.float32)
    total = tl.zeros([HELD], tl.float32)
    sums = tl.zeros([HELD, WIDTH], tl.float32)
    zero = tl.zeros([HELD, VISITED], tl.float32)
    nothing = tl.zeros([HELD, WIDTH], tl.float32)
    for _ in range(0, padded_columns, VISITED):
        high = tl.load(right)
        low = tl.load(right + right_half)
        scores = product(left_high, left_low, tl.trans(high), tl.trans(low), zero)
        scores += tl.load(bias)[None, :]
        higher = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp2(peak - shift)
        weights = tl.exp2(scores - (shift - HEADROOM)[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if MEANS:
            weights_high = weights.to(tl.float16)
            weights_low = (weights - weights_high.to(tl.float32)).to(tl.float16)
            tile = product(weights_high, weights_low, high, low, nothing)
            sums = sums * shrink[:, None] + tile
        peak = higher
        right += VISITED * WIDTH
        bias += VISITED

    inside = row < rows
    base = tl.where(peak == -float("inf"), 0.0, peak) - HEADROOM
    tl.store(value + offset * rows + row, (base + tl.log2(total)) / LOG2_E, inside)
    if MEANS:
        sums *= balance(norms) / tl.where(total == 0.0, 1.0, total)[:, None]
        target = mean + (offset * rows + row[:, None]) * dims + dim[None, :]
        tl.store(target, sums, inside[:, None] & (dim < dims)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(
    left: tl.tensor,
    right: tl.tensor,
    bias: tl.tensor,
    norms: tl.tensor,
    weighted: tl.tensor,
    row_numbers: tl.tensor,
    heaviest: tl.tensor,
    right_gradient: tl.tensor,
    bias_gradient: tl.tensor,
    columns: tl.tensor,
    dims: tl.tensor,
    padded_columns: tl.tensor,
    padded_rows: tl.tensor,
    left_step: tl.tensor,
    right_step: tl.tensor,
    WIDTH: constexpr,
    HELD: constexpr,
    VISITED: constexpr,
) -> None:
    """Each program holds some columns and visits all rows, whose values are known by now."""
    offset = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0).to(tl.int64) * HELD + tl.arange(0, HELD)
    dim = tl.arange(0, WIDTH)
    right += offset * right_step + column[:, None] * WIDTH + dim[None, :]
    right_high = tl.load(right)
    right_low = tl.load(right + padded_columns.to(tl.int64) * WIDTH)
    column_bias = tl.load(bias + offset * padded_columns + column)
    row = tl.arange(0, VISITED)
    left += offset * left_step + row[:, None] * WIDTH + dim[None, :]
    left_half = padded_rows.to(tl.int64) * WIDTH
    weighted += offset * 2 * left_half + row[:, None] * WIDTH + dim[None, :]
    row_numbers += offset * 2 * padded_rows + row

    sums = tl.zeros([HELD, WIDTH], tl.float32)
    total = tl.zeros([HELD], tl.float32)
    zero = tl.zeros([HELD, VISITED], tl.float32)
    nothing = tl.zeros([HELD, WIDTH], tl.float32)
    for _ in range(0, padded_rows, VISITED):
        high = tl.load(left)
        low = tl.load(left + left_half)
        scores = product(right_high, right_low, tl.trans(high), tl.trans(low), zero)
        weights = tl.exp2(scores + (column_bias[:, None] - tl.load(row_numbers)[None, :]))
        total += tl.sum(weights * tl.load(row_numbers + padded_rows)[None, :], 1)
        weights_high = weights.to(tl.float16)
        weights_low = (weights - weights_high.to(tl.float32)).to(tl.float16)
        weighted_high = tl.load(weighted)
        weighted_low = tl.load(weighted + left_half)
        sums += product(weights_high, weights_low, weighted_high, weighted_low, nothing)
        left += VISITED * WIDTH
        weighted += VISITED * WIDTH
        row_numbers += VISITED

    inside = column < columns
    tl.store(bias_gradient + offset * columns + column, total / LARGEST, inside)
    target = right_gradient + (offset * columns + column[:, None]) * dims + dim[None, :]
    sums /= weight_scale(norms, heaviest) * LARGEST
    tl.store(target, sums, inside[:, None] & (dim < dims)[None, :])
