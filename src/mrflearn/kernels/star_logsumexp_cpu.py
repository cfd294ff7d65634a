"""Log-partition of stars with its gradients in a single pass over blocks of whole rows.

The weight of a row in the outer sum is known, up to one common factor, as soon as the row is
done.  So its exponentials serve the value and every gradient while they are still in cache, where
separate forward and backward passes would compute them, and the scores, twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.low_rank_logsumexp_cpu import LOG2_E, blocks, share

BLOCK_BYTES = 1 << 23
ROWS_AT_LEAST, ROWS_AT_MOST = 32, 128


def value_and_gradients(
    left: Float[Tensor, "k r d"],
    right: Float[Tensor, "k c d"],
    bias: Float[Tensor, "k c"],
    centre: Float[Tensor, " r"],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The log-partition of stars, and its gradients by each argument in turn."""
    stars = _Stars(left, right, bias, centre)
    for sums in share(stars.sums_of, left.shape[1]):
        stars.sums.merge(sums)
    return stars.result()


class _Stars:
    """One evaluation: inputs in base 2, means and weights of rows, sums of all."""

    def __init__(self, left: Tensor, right: Tensor, bias: Tensor, centre: Tensor) -> None:
        self.left, self.right = left, right
        self.scaled, self.bias = left * LOG2_E, bias * LOG2_E
        self.transposed = right.mT.contiguous()
        self.mean = torch.empty_like(self.scaled)
        self.log_weight = centre * LOG2_E
        self.sums = _Sums.zero(self.transposed, self.bias)

    def sums_of(self, start: int, stop: int) -> _Sums:
        """The column sums of some rows, whose means and weights are filled in."""
        offsets, columns = self.bias.shape
        wanted = BLOCK_BYTES // (self.left.element_size() * offsets * columns)
        size = min(max(wanted, ROWS_AT_LEAST), ROWS_AT_MOST)
        buffer = self.left.new_empty(offsets, size, columns)
        sums = _Sums.zero(self.transposed, self.bias)
        for rows in blocks(start, stop, size):
            totals = self._exponentials(rows, buffer)
            sums.add(self.left[:, rows], totals, self.log_weight[rows], buffer)
        return sums

    def _exponentials(self, rows: slice, buffer: Tensor) -> Tensor:
        """Row sums of the exponentials, which are left in the buffer; fills means and weights."""
        totals = self.left.new_empty(len(self.bias), rows.stop - rows.start)
        for k, total in enumerate(totals):
            tile = buffer[k, : len(total)]
            torch.addmm(self.bias[k], self.scaled[k, rows], self.transposed[k], out=tile)
            peak = tile.amax(1)
            peak.masked_fill_(peak == -math.inf, 0.0)
            tile.sub_(peak.unsqueeze(1)).exp2_()
            torch.sum(tile, 1, out=total)
            self.log_weight[rows] += peak + total.log2()
            total.masked_fill_(total == 0, 1.0)
            torch.mm(tile, self.right[k], out=self.mean[k, rows])
            self.mean[k, rows] /= total.unsqueeze(1)
        return totals

    def result(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The value in natural units, and gradients with the common factor put in."""
        value = torch.logsumexp(self.log_weight / LOG2_E, 0)
        shift = torch.where(value.isfinite(), value, 0.0) * LOG2_E
        weight = (self.log_weight - shift).exp2()
        factor = torch.exp2(self.sums.peak - shift)
        left = self.mean.mul_(weight.unsqueeze(1))
        return value, left, self.sums.right.mul_(factor).mT, self.sums.bias.mul_(factor), weight


@dataclass(eq=False)
class _Sums:
    """Column sums, relative to 2 ** peak."""

    right: Float[Tensor, "k d c"]
    bias: Float[Tensor, "k c"]
    peak: Float[Tensor, ""]

    @classmethod
    def zero(cls, right: Tensor, bias: Tensor) -> _Sums:
        return cls(torch.zeros_like(right), torch.zeros_like(bias), bias.new_tensor(-math.inf))

    def add(self, left: Tensor, totals: Tensor, log_weight: Tensor, buffer: Tensor) -> None:
        self._raise_peak(log_weight.max())
        weight = (log_weight - self.peak.clamp_min(torch.finfo(left.dtype).min)).exp2() / totals
        for k, tile in enumerate(buffer[:, : left.shape[1]]):
            self.right[k].addmm_((left[k] * weight[k].unsqueeze(1)).T, tile)
            self.bias[k].addmv_(tile.T, weight[k])

    def merge(self, other: _Sums) -> None:
        self._raise_peak(other.peak)
        factor = torch.exp2(other.peak - self.peak) if other.peak.isfinite() else 0.0
        self.right += other.right * factor
        self.bias += other.bias * factor

    def _raise_peak(self, peak: Tensor) -> None:
        if peak > self.peak:
            shrink = torch.exp2(self.peak - peak)
            self.right *= shrink
            self.bias *= shrink
            self.peak = peak
