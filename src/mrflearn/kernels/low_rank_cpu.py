"""Log-sum-exps of low-rank scores in blocks that stay in cache, on a few threads; plain torch.

Scores are held in base 2: torch's `exp2` takes a third of the time of its `exp` on a CPU.
Letters in shapes: k: offsets; r, c: rows and columns of the scores; d: dimensions.
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

from mrflearn.execution.threads import stay_on_one_thread

T = TypeVar("T")
LOG2_E = math.log2(math.e)
ROWS, COLUMNS = 256, 2048
STAR_BYTES, LEAST_STAR_ROWS, MOST_STAR_ROWS = 1 << 23, 32, 128
STEP_ROWS = 64  # with 10,000 columns: a tile of 2.5 MB, the best of those measured
SMALLEST_SHARE = 64


# Row log-sum-exp: a pass by rows, and one by columns for the gradients.


def forward(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    *,
    means: bool,
) -> tuple[Float[Tensor, "k r"], Float[Tensor, "k r d"], tuple[Tensor, ...]]:
    """Row values, softmax means of the right vectors (if asked for), what `backward` reads."""
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


# Stars and power steps: a single pass over blocks of whole rows.  The weight of a row in the sums
# by columns is known, up to one common factor, as soon as the row is done.  So its exponentials
# serve the value and all that is asked by columns while they are still in cache, where separate
# passes would compute them, and the scores, twice.


def star(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    centre: Float[Tensor, " r"],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The log-partition of stars, and its gradients by each argument in turn."""
    offsets, columns = bias.shape
    scaled, scaled_bias, transposed = left * LOG2_E, bias * LOG2_E, right.mT.contiguous()
    mean, log_weight = torch.empty_like(scaled), centre * LOG2_E
    wanted = STAR_BYTES // (left.element_size() * offsets * columns)
    size = min(max(wanted, LEAST_STAR_ROWS), MOST_STAR_ROWS)

    def sums_of(start: int, stop: int) -> _ScaledSums:
        """The column sums of some rows, whose means and weights are filled in."""
        buffer = left.new_empty(offsets, size, columns)
        sums = _ScaledSums(transposed, bias)
        for rows in blocks(start, stop, size):
            tiles = buffer[:, : rows.stop - rows.start]
            totals = left.new_empty(tiles.shape[:2])
            for k, tile in enumerate(tiles):
                peak = _exponentials(
                    scaled_bias[k], scaled[k, rows], transposed[k], tile, totals[k]
                )
                log_weight[rows] += peak + totals[k].log2()
                totals[k].masked_fill_(totals[k] == 0, 1.0)
                torch.mm(tile, right[k], out=mean[k, rows])
                mean[k, rows] /= totals[k].unsqueeze(1)
            weight = sums.weights(log_weight[rows])
            if weight is None:
                continue
            for k, (tile, own) in enumerate(zip(tiles, weight / totals, strict=True)):
                sums.sums[0][k].addmm_((left[k, rows] * own.unsqueeze(1)).T, tile)
                sums.sums[1][k].addmv_(tile.T, own)
        return sums

    total = _merged(share(sums_of, left.shape[1]), transposed, bias)
    value = torch.logsumexp(log_weight / LOG2_E, 0)
    shift = torch.where(value.isfinite(), value, 0.0) * LOG2_E
    weight = (log_weight - shift).exp2()
    by_right, by_bias = (own.mul_(torch.exp2(total.peak - shift)) for own in total.sums)
    return value, mean.mul_(weight.unsqueeze(1)), by_right.mT, by_bias, weight


def power_step(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    rows: Float[Tensor, "k r"],
    columns: Float[Tensor, "k c"],
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k r"]]:
    """log (M^T u) and log (M v), for log u over the rows and log v over the columns.

    A column whose sum is below the type's smallest number keeps that number.
    """
    steps = map(_power_step, left, right, bias, rows, columns)
    along_columns, along_rows = zip(*steps, strict=True)
    return torch.stack(along_columns), torch.stack(along_rows)


def _power_step(
    left: Tensor, right: Tensor, bias: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    scaled, transposed = left * LOG2_E, right.T.contiguous()
    log_rows, log_columns, shift = rows * LOG2_E, columns * LOG2_E, (bias + columns) * LOG2_E
    log_sums = torch.empty_like(log_rows)

    def sums_of(start: int, stop: int) -> _ScaledSums:
        buffer, sums = left.new_empty(STEP_ROWS, len(shift)), _ScaledSums(shift)
        for some in blocks(start, stop, STEP_ROWS):
            tile, total = buffer[: some.stop - some.start], log_sums[some]
            peak = _exponentials(shift, scaled[some], transposed, tile, total)
            total.log2_().add_(peak)
            weight = sums.weights(log_rows[some] + peak)
            if weight is not None:
                sums.sums[0].addmv_(tile.T, weight)
        return sums

    total = _merged(share(sums_of, len(rows)), shift)
    sums = total.sums[0].clamp_min_(torch.finfo(left.dtype).tiny).log2_() + total.peak
    return (sums - log_columns) / LOG2_E, log_sums / LOG2_E


def _exponentials(
    bias: Float[Tensor, " c"],
    left: Float[Tensor, "r d"],
    transposed: Float[Tensor, "d c"],
    tile: Float[Tensor, "r c"],
    total: Float[Tensor, " r"],
) -> Float[Tensor, " r"]:
    """Fills a tile with 2 ** (scores - peak of the row), `total` with its row sums; the peaks."""
    torch.addmm(bias, left, transposed, out=tile)
    peak = tile.amax(1)
    peak.masked_fill_(peak == -math.inf, 0.0)
    tile.sub_(peak.unsqueeze(1)).exp2_()
    torch.sum(tile, 1, out=total)
    return peak


class _ScaledSums:
    """Sums over rows, relative to 2 ** peak."""

    def __init__(self, *like: Tensor) -> None:
        self.sums = [torch.zeros_like(own) for own in like]
        self.peak = -math.inf

    def weights(self, log_weight: Float[Tensor, " r"]) -> Float[Tensor, " r"] | None:
        """2 ** log_weight in the units of the sums; None where no row has weight yet."""
        self._raise_peak(float(log_weight.max()))
        return (log_weight - self.peak).exp2() if self.peak > -math.inf else None

    def merge(self, other: _ScaledSums) -> None:
        """Take in the sums of another thread."""
        self._raise_peak(other.peak)
        if other.peak > -math.inf:
            for own, more in zip(self.sums, other.sums, strict=True):
                own.add_(more, alpha=2.0 ** (other.peak - self.peak))

    def _raise_peak(self, peak: float) -> None:
        if peak > self.peak:
            for own in self.sums:
                own *= 2.0 ** (self.peak - peak)
            self.peak = peak


def _merged(parts: list[_ScaledSums], *like: Tensor) -> _ScaledSums:
    total = _ScaledSums(*like)
    for part in parts:
        total.merge(part)
    return total


# Shares of the work for threads.


def blocks(start: int, stop: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover start..stop."""
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


def share(work: Callable[[int, int], T], items: int) -> list[T]:
    """What `work(start, stop)` gives for shares of 0..items, one for each thread torch may use.

    In the order of the shares, whichever ends first: sums over them are the same in every run.
    Threads that each keep their own tile in cache outrun torch's own, which share every tile.
    """
    size = max(SMALLEST_SHARE, math.ceil(items / torch.get_num_threads()))
    shares = [(part.start, part.stop) for part in blocks(0, items, size)]

    def quietly(part: tuple[int, int]) -> T:
        with torch.no_grad():  # a new thread starts with gradients on
            return work(*part)

    if len(shares) <= 1:
        return [quietly(part) for part in shares]
    with ThreadPoolExecutor(len(shares), initializer=stay_on_one_thread) as pool:
        return list(pool.map(quietly, shares))
