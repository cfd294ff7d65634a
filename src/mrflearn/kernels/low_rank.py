"""Log-sum-exps of low-rank scores, without ever holding a rows x columns array.

    scores[k](x, y) = scale[k] * left[k, x] . right[k, y] + bias[k, y]

    row_logsumexp:   value[k, x] = log sum_y exp( scores[k](x, y) )
    star_logsumexp:  value = log sum_x exp( centre[x] + sum_k row_logsumexp[k, x] ), with gradients
    power_step:      log (M^T u) and log (M v), where M[k] = exp(scores[k])

These are the messages, the stars [Jernite, Rush, Sontag 2015, Figure 4] and the power steps of the
lifted language model (k: offsets; x, y: words; d: dimensions), and the pattern of attention.  Means
of such scores over the pairs of a text are products with a `SparseMatrix` of their frequencies.

On a CPU stars and power steps take a single pass over blocks of whole rows that stay in cache: the
weight of a row in the sums by columns is known, up to one common factor, as soon as the row is
done, so that its exponentials serve the value and all that is asked by columns.  Scores are held in
base 2: torch's `exp2` takes a third of the time of its `exp` on a CPU.  A GPU, where products cost
little, takes two passes: Triton kernels for float32, or else plain torch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar, final

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from mrflearn.execution.resources import stay_on_one_thread

T = TypeVar("T")
LOG2_E = math.log2(math.e)
WIDEST_FOR_TRITON = 256  # dimensions whose tiles fit the shared memory of a multiprocessor
STAR_BYTES, LEAST_STAR_ROWS, MOST_STAR_ROWS = 1 << 23, 32, 128
FAST_WIDTH = 16  # dimensions: products of multiples of it take half the time of those between
STEP_ROWS = 64  # with 10,000 columns: a tile of 2.5 MB, the best of those measured
SMALLEST_SHARE = 64

Left = Float[Tensor, "#k r d"]  # vectors of the rows; k = 1: shared by all offsets
Right = Float[Tensor, "#k c d"]  # vectors of the columns
PerRow = Float[Tensor, "k r"]
PerColumn = Float[Tensor, "k c"]
Scale = float | Float[Tensor, " k"]


@torch.no_grad()
def row_logsumexp(left: Left, right: Right, bias: PerColumn, scale: Scale = 1.0) -> PerRow:
    """Log-sum-exp of each row of scores; `left` or `right` may be shared by all offsets (k = 1).

    A bias of -inf leaves its column out; where all are -inf the value is -inf.
    """
    shape = len(bias), -1, -1
    left, right = (left * _factor(scale)).expand(shape), right.expand(shape)
    return choose(left).rows(left, right, bias)


def star_logsumexp(
    left: Left, right: Right, bias: PerColumn, centre: Float[Tensor, " r"], scale: Scale = 1.0
) -> Float[Tensor, ""]:
    """Log-sum-exp over the star's centre of its own score plus the messages of its leaves.

    With gradients on, they are computed together with the value.
    """
    if not torch.is_grad_enabled():
        return (centre + row_logsumexp(left, right, bias, scale).sum(0)).logsumexp(0)
    vectors = left * _factor(scale), right
    value: Tensor = _StarLogSumExp.apply(*vectors, bias, centre)  # type: ignore[no-untyped-call]
    return value


@torch.no_grad()
def power_step(
    left: Left, right: Right, bias: PerColumn, rows: PerRow, columns: PerColumn
) -> tuple[PerColumn, PerRow]:
    """log (M^T u) and log (M v), for log u over the rows and log v over the columns."""
    return choose(left).power_step(left, right, bias, rows, columns)


def _factor(scale: float | Tensor) -> float | Tensor:
    return scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale


class _StarLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, bias: Tensor, centre: Tensor) -> Tensor:
        shape = len(bias), -1, -1
        wide = left.detach().expand(shape), right.detach().expand(shape)
        value, *gradients = choose(left).star(*wide, bias.detach(), centre.detach())
        for side, vectors in enumerate((left, right)):
            if len(vectors) != len(bias):
                gradients[side] = gradients[side].sum(0, keepdim=True)
        ctx.save_for_backward(*gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, ...]:
        # One launch for all of them: on a GPU small evaluations wait for launches, not for work.
        return tuple(torch._foreach_mul(ctx.saved_tensors, weight))


# Fixed sparse matrices times dense ones, differentiable in the dense ones.


@final
@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A matrix by compressed rows, and its transpose, which the gradient needs."""

    forth: Tensor
    back: Tensor

    @classmethod
    def of(cls, matrix: csr_array, dtype: torch.dtype, device: torch.device) -> SparseMatrix:
        """The matrix and its transpose, in numbers of a type and on a device."""
        both = []
        for one in (matrix.tocsr(), matrix.T.tocsr()):
            first, column, value = map(torch.from_numpy, (one.indptr, one.indices, one.data))
            both.append(compressed(first, column, value, one.shape).to(device, dtype))
        return cls(*both)

    def __matmul__(self, dense: Float[Tensor, "f t"]) -> Float[Tensor, "c t"]:
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.forth @ dense

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.back @ weight.contiguous(), None


def compressed(
    first: Int[Tensor, " y+1"], column: Int[Tensor, " z"], value: Tensor, size: tuple[int, int]
) -> Tensor:
    """A sparse matrix: row y has the columns and values from `first[y]` to `first[y + 1]`."""
    with warnings.catch_warnings():
        # torch says once a process, at whoever comes first, that this layout is "beta", and
        # some versions that its indices are not checked.
        warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
        return torch.sparse_csr_tensor(first, column, value, size=size, check_invariants=False)


# Which kernels do the work, by the device and type of the tensors.


class LowRankKernels(NamedTuple):
    """Row log-sum-exps, stars with their gradients by each argument in turn, and power steps."""

    rows: Callable[..., Tensor]
    star: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]
    power_step: Callable[..., tuple[Tensor, Tensor]]


def choose(left: Left) -> LowRankKernels:
    """The kernels for scores of vectors like these."""
    if left.is_cpu:
        return LowRankKernels(rows_in_blocks, star_in_blocks, step_in_blocks)
    fits = left.dtype == torch.float32 and left.shape[-1] <= WIDEST_FOR_TRITON
    if left.is_cuda and fits and _has_triton():
        from mrflearn.kernels import low_rank_triton

        return in_two_passes(low_rank_triton.forward, low_rank_triton.backward)
    return in_two_passes(plain_forward, plain_backward)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


# Two passes: by rows for the values, then by columns for the gradients.


def in_two_passes(forward: Callable[..., Any], backward: Callable[..., Any]) -> LowRankKernels:
    """All kernels from the passes of the row log-sum-exp alone.

    `forward` gives values, softmax means of the right vectors (if asked for) and what `backward`
    reads to give the gradients by right vectors and bias of weighted values.
    """

    def rows(left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        value: Tensor = forward(left, right, bias, means=False)[0]
        return value

    def star(left: Tensor, right: Tensor, bias: Tensor, centre: Tensor) -> tuple[Tensor, ...]:
        messages, mean, saved = forward(left, right, bias, means=True)
        log_weight = centre + messages.sum(0)
        # Bounded below, so that a star without any finite score has finite weights.
        normalised = log_weight.clamp_min(torch.finfo(left.dtype).min / 2).log_softmax(0)
        value = log_weight.amax() - normalised.amax()
        weight = normalised.exp()
        by_right, by_bias = backward(messages, weight.expand_as(messages), saved)
        return value, weight.unsqueeze(-1) * mean, by_right, by_bias, weight

    def step(
        left: Tensor, right: Tensor, bias: Tensor, of_rows: Tensor, of_columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        return bias + rows(right, left, of_rows), rows(left, right, bias + of_columns)

    return LowRankKernels(rows, star, step)  # type: ignore[arg-type]


def plain_forward(
    left: Left, right: Right, bias: PerColumn, *, means: bool
) -> tuple[PerRow, Left, tuple[Tensor, ...]]:
    """Row values, softmax means of the right vectors (if asked for), what `backward` reads."""
    values, mean = [], left.new_empty(left.shape if means else 0)
    for rows in blocks(0, left.shape[1], MOST_STAR_ROWS):
        scores = left[:, rows] @ right.mT + bias.unsqueeze(1)
        values.append(scores.logsumexp(2))
        if means:
            mean[:, rows] = (scores - _finite(values[-1]).unsqueeze(2)).exp_() @ right
    return torch.cat(values, 1), mean, (left, right, bias)


def plain_backward(
    value: PerRow, weight: PerRow, saved: tuple[Tensor, ...]
) -> tuple[Right, PerColumn]:
    """Gradients of sum(weight * value) by the right vectors and the bias."""
    left, right, bias = saved
    by_right, by_bias, shift = torch.zeros_like(right), torch.zeros_like(bias), _finite(value)
    for rows in blocks(0, left.shape[1], MOST_STAR_ROWS):
        scores = left[:, rows] @ right.mT + bias.unsqueeze(1)
        share = (scores - shift[:, rows, None]).exp_() * weight[:, rows, None]
        by_right += share.mT @ left[:, rows]
        by_bias += share.sum(1)
    return by_right, by_bias


def _finite(value: Tensor) -> Tensor:
    """A row without finite scores has the weights of an empty softmax: zeros, not nan."""
    return value.masked_fill(value == -math.inf, 0.0)


# One pass over blocks of whole rows, on a few threads.


def rows_in_blocks(left: Left, right: Right, bias: PerColumn) -> PerRow:
    """Log-sum-exp of each row: half of a power step, whose other half costs little."""
    ones = left.new_zeros(left.shape[:2]), torch.zeros_like(bias)
    return step_in_blocks(left, right, bias, *ones)[1]


def star_in_blocks(
    left: Left, right: Right, bias: PerColumn, centre: Float[Tensor, " r"]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The log-partition of stars, and its gradients by each argument in turn."""
    (offsets, columns), dims = bias.shape, left.shape[2]
    left, right = (pad(own, (0, -dims % FAST_WIDTH)) for own in (left, right))
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

    total = reduce(_ScaledSums.merge, share(sums_of, left.shape[1]))
    value = torch.logsumexp(log_weight / LOG2_E, 0)
    shift = torch.where(value.isfinite(), value, 0.0) * LOG2_E
    weight = (log_weight - shift).exp2()
    by_right, by_bias = (own.mul_(torch.exp2(total.peak - shift)) for own in total.sums)
    by_left = mean.mul_(weight.unsqueeze(1))
    return value, by_left[..., :dims], by_right.mT[..., :dims], by_bias, weight


def step_in_blocks(*arguments: Float[Tensor, "k ..."]) -> tuple[Tensor, Tensor]:
    """The power step of each offset in turn, its arguments those of `power_step`."""
    along_columns, along_rows = zip(*map(_step, *arguments), strict=True)
    return torch.stack(along_columns), torch.stack(along_rows)


def _step(
    left: Tensor, right: Tensor, bias: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """A column whose sum is below the type's smallest number keeps that number."""
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

    total = reduce(_ScaledSums.merge, share(sums_of, len(rows)))
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

    def merge(self, other: _ScaledSums) -> _ScaledSums:
        """These sums, with those of another thread taken in."""
        self._raise_peak(other.peak)
        if other.peak > -math.inf:
            for own, more in zip(self.sums, other.sums, strict=True):
                own.add_(more, alpha=2.0 ** (other.peak - self.peak))
        return self

    def _raise_peak(self, peak: float) -> None:
        if peak > self.peak:
            for own in self.sums:
                own *= 2.0 ** (self.peak - peak)
            self.peak = peak


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
