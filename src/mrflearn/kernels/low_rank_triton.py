"""Row log-sum-exp of low-rank scores in one Triton kernel.

high = half(x) and low = half(x - high) hold 22 bits together, and a product takes three dots:
high high + high low + low high.  That costs half of three TF32 products, to the same accuracy.

Scores are in base 2.  Tensor cores cut off the last
bits when they add up, so each tile's product starts from zero and is added in ordinary arithmetic.
Nothing here waits for the device, so that callers may record a CUDA graph.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language import constexpr

# Matrices as sums of two float16 halves, for products on tensor cores as accurate as float32's.


# Numbers are brought up to 2 ** HEADROOM, so that the halves of much smaller ones still count.
HEADROOM = tl.constexpr(14)
LARGEST = tl.constexpr(2.0**14)
LOG2_E = tl.constexpr(math.log2(math.e))
PADDING = 128
NARROWEST_DOT = 16


class Halves(NamedTuple):
    """Left and right vectors, balanced, as halves; biases in base 2; what padding adds is 0.

    `norms` holds the largest sizes before; k is 1 where all offsets share their vectors.
    """

    left: Float[Tensor, "#k 2 m w"]
    right: Float[Tensor, "#k 2 n w"]
    bias: Float[Tensor, "k n"]
    norms: Float[Tensor, " 2"]


class WeightedHalves(NamedTuple):
    """Left vectors times the weights of their rows, as halves, with shifts and weights of rows."""

    left: Float[Tensor, "k 2 m w"]
    rows: Float[Tensor, "k 2 m"]
    largest_weight: Float[Tensor, ""]


def split(
    left: Float[Tensor, "k r d"], right: Float[Tensor, "k c d"], bias: Float[Tensor, "k c"]
) -> Halves:
    """Left vectors (times log2 e), right vectors and biases, ready for the kernels."""
    norms = left.new_empty(2)
    torch.linalg.vector_norm(left, math.inf, out=norms[0])
    torch.linalg.vector_norm(right, math.inf, out=norms[1])
    left_halves, right_halves = _room(left), _room(right)
    padded_bias = bias.new_empty(len(bias), right_halves.shape[2])
    blocks = max(left_halves.shape[2], right_halves.shape[2]) // PADDING
    _split_kernel[blocks, 2 * len(bias)](
        left, right, bias, norms, left_halves, right_halves, padded_bias,
        *left.stride(), *right.stride(), *bias.stride(),
        *left.shape[1:], right.shape[1], offset_step(left_halves), offset_step(right_halves),
        WIDTH=left_halves.shape[3], ROWS=PADDING,
    )  # fmt: skip
    return Halves(left_halves, right_halves, padded_bias, norms)


def split_weighted(
    left: Float[Tensor, "k r d"],
    value: Float[Tensor, "k r"],
    weight: Float[Tensor, "k r"],
    norms: Float[Tensor, " 2"],
) -> WeightedHalves:
    """Left vectors times the weights of their rows, and the rows' shifts and weights."""
    largest_weight = torch.linalg.vector_norm(weight, math.inf)
    halves = _room(left, copies=len(left))
    rows = weight.new_empty(halves.shape[:3])
    _weigh_kernel[halves.shape[2] // PADDING, len(left)](
        left, value, weight, norms, largest_weight, halves, rows,
        *left.stride(), *weight.stride(), *left.shape[1:],
        WIDTH=halves.shape[3], ROWS=PADDING,
    )  # fmt: skip
    return WeightedHalves(halves, rows, largest_weight)


def offset_step(halves: Float[Tensor, "#k 2 m w"]) -> int:
    """Numbers from one offset to the next: none where all offsets share their vectors."""
    return halves.stride(0) if len(halves) > 1 else 0


def _room(vectors: Float[Tensor, "k n d"], copies: int | None = None) -> Float[Tensor, "#k 2 m w"]:
    """Room for high and low halves; one copy where all offsets share their vectors."""
    offsets, count, dims = vectors.shape
    width = max(NARROWEST_DOT, triton.next_power_of_2(dims))
    padded = triton.cdiv(count, PADDING) * PADDING
    copies = copies or (1 if vectors.stride(0) == 0 else offsets)
    return vectors.new_empty(copies, 2, padded, width, dtype=torch.float16)


@triton.jit  # type: ignore[untyped-decorator]
def balance(norms: tl.tensor) -> tl.tensor:
    """A factor that brings `left * factor` and `right / factor` to one magnitude."""
    ratio = tl.load(norms + 1) / tl.load(norms)
    return tl.where((ratio > 0) & (ratio < float("inf")), tl.sqrt(ratio), 1.0)


@triton.jit  # type: ignore[untyped-decorator]
def weight_scale(norms: tl.tensor, largest_weight: tl.tensor) -> tl.tensor:
    """A factor that brings the weighted left vectors into the range of float16."""
    largest = tl.load(largest_weight) * tl.load(norms)
    scale = 1.0 / largest * LARGEST
    return tl.where((scale > 0) & (scale < float("inf")), scale, 1.0)


@triton.jit  # type: ignore[untyped-decorator]
def product(
    high: tl.tensor, low: tl.tensor, other_high: tl.tensor, other_low: tl.tensor, start: tl.tensor
) -> tl.tensor:
    """`start` plus the product of two matrices given as halves; low low is below float32."""
    start = tl.dot(high, other_low, start)
    start = tl.dot(low, other_high, start)
    return tl.dot(high, other_high, start)


@triton.jit  # type: ignore[untyped-decorator]
def _store_halves(
    exact: tl.tensor, halves: tl.tensor, row: tl.tensor, padded: tl.tensor, WIDTH: constexpr
) -> None:
    high = exact.to(tl.float16)
    target = halves + row * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(target, high, row < padded)
    low = (exact - high.to(tl.float32)).to(tl.float16)
    tl.store(target + padded * WIDTH, low, row < padded)


@triton.jit  # type: ignore[untyped-decorator]
def _split_kernel(
    left: tl.tensor,
    right: tl.tensor,
    bias: tl.tensor,
    norms: tl.tensor,
    left_halves: tl.tensor,
    right_halves: tl.tensor,
    padded_bias: tl.tensor,
    left_offset: tl.tensor,
    left_row: tl.tensor,
    left_dim: tl.tensor,
    right_offset: tl.tensor,
    right_row: tl.tensor,
    right_dim: tl.tensor,
    bias_offset: tl.tensor,
    bias_column: tl.tensor,
    rows: tl.tensor,
    dims: tl.tensor,
    columns: tl.tensor,
    left_step: tl.tensor,
    right_step: tl.tensor,
    WIDTH: constexpr,
    ROWS: constexpr,
) -> None:
    """Even programs split left vectors; odd ones right vectors, and pad the bias with -inf."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    dim = tl.arange(0, WIDTH)[None, :]
    offset = tl.program_id(1).to(tl.int64) // 2
    factor = balance(norms)
    if tl.program_id(1) % 2 == 0:
        padded = tl.cdiv(rows, ROWS) * ROWS
        source = left + offset * left_offset + row * left_row + dim * left_dim
        exact = tl.load(source, (row < rows) & (dim < dims), 0.0) * (factor * LOG2_E)
        _store_halves(exact, left_halves + offset * left_step, row, padded, WIDTH)
    else:
        padded = tl.cdiv(columns, ROWS) * ROWS
        source = right + offset * right_offset + row * right_row + dim * right_dim
        exact = tl.load(source, (row < columns) & (dim < dims), 0.0) / factor
        _store_halves(exact, right_halves + offset * right_step, row, padded, WIDTH)
        column_bias = bias + offset * bias_offset + row * bias_column
        base_two = tl.load(column_bias, row < columns, -float("inf")) * LOG2_E
        tl.store(padded_bias + offset * padded + row, base_two, row < padded)


@triton.jit  # type: ignore[untyped-decorator]
def _weigh_kernel(
    left: tl.tensor,
    value: tl.tensor,
    weight: tl.tensor,
    norms: tl.tensor,
    largest_weight: tl.tensor,
    halves: tl.tensor,
    row_numbers: tl.tensor,
    left_offset: tl.tensor,
    left_row: tl.tensor,
    left_dim: tl.tensor,
    weight_offset: tl.tensor,
    weight_row: tl.tensor,
    rows: tl.tensor,
    dims: tl.tensor,
    WIDTH: constexpr,
    ROWS: constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    dim = tl.arange(0, WIDTH)[None, :]
    offset = tl.program_id(1).to(tl.int64)
    padded = tl.cdiv(rows, ROWS) * ROWS
    source = left + offset * left_offset + row * left_row + dim * left_dim
    exact = tl.load(source, (row < rows) & (dim < dims), 0.0)
    row_weight = tl.load(weight + offset * weight_offset + row * weight_row, row < rows, 0.0)
    exact *= row_weight * weight_scale(norms, largest_weight)
    _store_halves(exact, halves + offset * 2 * padded * WIDTH, row, padded, WIDTH)
    shift = tl.load(value + offset * rows + row, row < rows, -float("inf")) * LOG2_E - HEADROOM
    row_numbers += offset * 2 * padded + row
    # A row without finite scores has the weights of an empty softmax: zeros, not nan.
    tl.store(row_numbers, tl.where(shift == -float("inf"), float("inf"), shift))
    tl.store(row_numbers + padded, row_weight)


# Row log-sum-exp of low-rank scores on a GPU: Triton kernels, as accurate as float32 arithmetic.


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
        weighted.left, weighted.rows, weighted.largest_weight, right_gradient, bias_gradient,
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
    largest_weight: tl.tensor,
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
    sums /= weight_scale(norms, largest_weight) * LARGEST
    tl.store(target, sums, inside[:, None] & (dim < dims)[None, :])
