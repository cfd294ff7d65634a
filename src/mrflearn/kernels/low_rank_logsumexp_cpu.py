"""Row log-sum-exp of low-rank scores in tiles that stay in cache, on a few threads; plain torch.

Scores are held in base 2: torch's `exp2` takes a third of the time of its `exp` on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

T = TypeVar("T")
LOG2_E = math.log2(math.e)
ROWS, COLUMNS = 256, 2048
SMALLEST_SHARE = 64


def forward(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    *,
    means: bool,
) -> tuple[Float[Tensor, "k r"], Float[Tensor, "k r d"], tuple[Tensor, ...]]:
    """Row values, softmax means of the right vectors (if asked for), what `backward` reads.

    k: offsets; r, c: rows and columns of the scores; d: dimensions.
    """
    scaled, scaled_bias = left * LOG2_E, bias * LOG2_E
    transposed = right.mT.contiguous()
    peak = left.new_full(left.shape[:2], -math.inf)
    total = torch.zeros_like(peak)
    mean = torch.zeros_like(scaled) if means else left.new_empty(0)

    def rows_of(start: int, stop: int) -> None:
        buffer = left.new_empty(ROWS * COLUMNS)
        for k, columns in product(range(len(right)), blocks(0, right.shape[1], COLUMNS)):
            for rows in blocks(start, stop, ROWS):
                tile = _tile(
                    scaled[k, rows], transposed[k, :, columns], scaled_bias[k, columns], buffer
                )
                sums = mean[k, rows] if means else None
                _add_tile(tile, right[k, columns], peak[k, rows], total[k, rows], sums)

    share(rows_of, left.shape[1])
    if means:
        mean /= total.masked_fill(total == 0, 1.0).unsqueeze(-1)
    return (peak + total.log2()) / LOG2_E, mean, (left, scaled, transposed, scaled_bias)


def backward(
    value: Float[Tensor, "k r"], weight: Float[Tensor, "k r"], saved: tuple[Tensor, ...]
) -> tuple[Float[Tensor, "k c d"], Float[Tensor, "k c"]]:
    """Gradients of sum(weight * value) by the right vectors and the bias, in a pass by columns."""
    left, scaled, transposed, bias = saved
    weighted = (left * weight.unsqueeze(-1)).mT.contiguous()
    # A row without finite scores has the weights of an empty softmax: zeros, not nan.
    shift = torch.where(value.isfinite(), value * LOG2_E, 0.0)
    right_sums = torch.zeros_like(transposed)
    bias_sums = torch.zeros_like(bias)

    def columns_of(start: int, stop: int) -> None:
        buffer = left.new_empty(ROWS * COLUMNS)
        for k, columns in product(range(len(bias)), blocks(start, stop, COLUMNS)):
            for rows in blocks(0, left.shape[1], ROWS):
                tile = _tile(scaled[k, rows], transposed[k, :, columns], bias[k, columns], buffer)
                tile.sub_(shift[k, rows].unsqueeze(1)).exp2_()
                right_sums[k, :, columns].addmm_(weighted[k, :, rows], tile)
                bias_sums[k, columns].addmv_(tile.T, weight[k, rows])

    share(columns_of, bias.shape[1])
    return right_sums.mT, bias_sums


def blocks(start: int, stop: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover start..stop."""
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


def share(work: Callable[[int, int], T], items: int) -> list[T]:
    """What `work(start, stop)` gives for shares of 0..items, one for each thread torch may use.

    In the order of the shares, whichever ends first: sums over them are the same in every run.
    Threads that each keep their own tile in cache outrun torch's own, which share every tile.
    """
    threads = torch.get_num_threads()
    size = max(SMALLEST_SHARE, math.ceil(items / threads))
    shares = [(part.start, part.stop) for part in blocks(0, items, size)]

    def quietly(part: tuple[int, int]) -> T:
        with torch.no_grad():  # a new thread starts with gradients on
            return work(*part)

    if len(shares) <= 1:
        return [quietly(part) for part in shares]
    torch.set_num_threads(1)  # new threads take this setting over
    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            return list(pool.map(quietly, shares))
    finally:
        torch.set_num_threads(threads)


def _tile(
    left: Float[Tensor, "r d"],
    transposed: Float[Tensor, "d c"],
    bias: Float[Tensor, " c"],
    buffer: Float[Tensor, " b"],
) -> Float[Tensor, "r c"]:
    tile = buffer[: len(left) * len(bias)].view(len(left), len(bias))
    return torch.addmm(bias, left, transposed, out=tile)


def _add_tile(
    tile: Float[Tensor, "r c"],
    right: Float[Tensor, "c d"],
    peak: Float[Tensor, " r"],
    total: Float[Tensor, " r"],
    sums: Float[Tensor, "r d"] | None,
) -> None:
    """Adds a tile of base-2 scores to running sums that are relative to the running peak."""
    higher = torch.maximum(peak, tile.amax(1))
    shift = higher.masked_fill(higher == -math.inf, 0.0)
    shrink = (peak - shift).exp2_()
    tile.sub_(shift.unsqueeze(1)).exp2_()
    total.mul_(shrink).add_(tile.sum(1))
    if sums is not None:
        sums.mul_(shrink.unsqueeze(1)).addmm_(tile, right)
    peak.copy_(higher)
