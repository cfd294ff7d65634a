"""One power step of both Perron vectors from the same exponentials, in blocks of whole rows."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.low_rank_logsumexp_cpu import LOG2_E, blocks, share

ROWS = 64  # with 10,000 columns: a tile of 2.5 MB, the best of those measured


def power_step(
    left: Float[Tensor, "r d"],
    right: Float[Tensor, "c d"],
    bias: Float[Tensor, " c"],
    rows: Float[Tensor, " r"],
    columns: Float[Tensor, " c"],
) -> tuple[Float[Tensor, " c"], Float[Tensor, " r"]]:
    """log (M^T u) and log (M v), for log u over the rows and log v over the columns.

    A column whose sum is below the type's smallest number keeps that number.
    """
    scaled, transposed = left * LOG2_E, right.T.contiguous()
    peaks, log_rows, log_columns = bias + columns, rows * LOG2_E, columns * LOG2_E
    shift = peaks * LOG2_E
    log_sums = torch.empty_like(log_rows)

    def add(start: int, stop: int) -> _ColumnSums:
        buffer = left.new_empty(ROWS, len(shift))
        own = _ColumnSums(len(shift), left)
        for some in blocks(start, stop, ROWS):
            tile = buffer[: some.stop - some.start]
            torch.addmm(shift, scaled[some], transposed, out=tile)
            peak = tile.amax(1)
            peak.masked_fill_(peak == -math.inf, 0.0)
            tile.sub_(peak.unsqueeze(1)).exp2_()
            log_sums[some] = peak + tile.sum(1).log2()
            own.add(tile, log_rows[some] + peak)
        return own

    total = _ColumnSums(len(columns), left)
    for own in share(add, len(rows)):
        total.merge(own)
    return (total.logarithm() - log_columns) / LOG2_E, log_sums / LOG2_E


class _ColumnSums:
    """Sums of rows with weights, relative to 2 ** peak."""

    def __init__(self, columns: int, like: Tensor) -> None:
        self.sums = like.new_zeros(columns)
        self.peak = -math.inf

    def add(self, tile: Float[Tensor, "r c"], log_weight: Float[Tensor, " r"]) -> None:
        """Take in rows, each times 2 ** log_weight."""
        self._raise_peak(float(log_weight.max()))
        if self.peak > -math.inf:
            self.sums.addmv_(tile.T, (log_weight - self.peak).exp2_())

    def merge(self, other: _ColumnSums) -> None:
        """Take in the sums of another thread."""
        self._raise_peak(other.peak)
        if other.peak > -math.inf:
            self.sums += other.sums * 2.0 ** (other.peak - self.peak)

    def _raise_peak(self, peak: float) -> None:
        if peak > self.peak:
            self.sums *= 2.0 ** (self.peak - peak)
            self.peak = peak

    def logarithm(self) -> Float[Tensor, " c"]:
        """To base 2."""
        tiny = torch.finfo(self.sums.dtype).tiny
        return self.sums.clamp_min(tiny).log2() + self.peak
