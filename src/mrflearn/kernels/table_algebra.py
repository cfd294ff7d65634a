"""Products and sums of tables with labelled axes, of which each may lack some.

A table over the ascending labels `axes` has one axis for each of them and a last, unlabelled one
that runs over n independent copies.  Axes of equal role lie side by side in memory and are worked
on as one long axis, however many there are: speed comes from long inner loops.

Linear arithmetic is several times faster than arithmetic on logarithms, but products of very
unequal entries leave the range of floating point.  So each scaled table knows its depth, the
log-ratio of its largest to its smallest positive entry; depths add up under multiplication, and
where they exceed `RANGE` the work is done on logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

Axes = tuple[int, ...]

SHORT = 8  # entries of an axis that is unrolled: a loop over it costs more than its arithmetic
SMALL = 4096  # a table of fewer entries is not worth unrolling
MOST_SLICES = 16


@dataclass(frozen=True)
class Arithmetic:
    """How numbers are multiplied, and summed two by two or along an axis; the empty sum."""

    times: Callable[..., Tensor]
    plus: Callable[..., Tensor]
    total: Callable[..., Tensor]
    zero: float


SUM_PRODUCT = Arithmetic(torch.mul, torch.add, torch.sum, 0.0)
LOG_SUM_PRODUCT = Arithmetic(torch.add, torch.logaddexp, torch.logsumexp, -torch.inf)
LOG_MAX_PRODUCT = Arithmetic(torch.add, torch.maximum, torch.amax, -torch.inf)


def multiply(
    arithmetic: Arithmetic, tables: Sequence[tuple[Tensor, Axes]], axes: Axes, sizes: Sequence[int]
) -> Tensor:
    """The product of tables that have all of the axes between them, as one table over all.

    Where there is but one table, it is that table itself.
    """
    size = dict(zip(axes, sizes, strict=True))
    # Small ones first: few passes are then over a table as large as the product.
    (left, present), *rest = sorted(tables, key=lambda pair: pair[0].numel())
    for turn, (right, others) in enumerate(rest):
        union = tuple(axis for axis in axes if axis in present or axis in others)
        union_sizes = [size[axis] for axis in union]
        runs = _runs(union, (present, others), union_sizes, left.shape[-1])
        ours, theirs = (
            table.reshape([length if roles[i] else 1 for length, roles in runs])
            for i, table in enumerate((left, right))
        )
        fresh = turn == 0 or union != present
        product = left.new_empty(*union_sizes, left.shape[-1]) if fresh else left
        _apply(arithmetic.times, product.view([length for length, _ in runs]), ours, theirs)
        left, present = product, union
    return left


def sum_out(
    arithmetic: Arithmetic, table: Tensor, axes: Axes, sizes: Sequence[int], keep: Axes
) -> Tensor:
    """The table over the axes to keep, all others summed out."""
    copies = table.shape[-1]
    runs = _runs(axes, (keep,), sizes, copies)
    table = table.reshape([size for size, _ in runs])
    remaining = [roles[0] for _, roles in runs]
    while not all(remaining):
        # The longest first: what is left to do is then smallest.
        axis = max(
            (i for i, kept in enumerate(remaining) if not kept), key=lambda i: table.shape[i]
        )
        table = _total(arithmetic, table, axis)
        del remaining[axis]
    kept_sizes = [size for axis, size in zip(axes, sizes, strict=True) if axis in keep]
    return table.reshape(*kept_sizes, copies)


def _total(arithmetic: Arithmetic, table: Tensor, axis: int) -> Tensor:
    if table.shape[axis] <= SHORT:
        return reduce(arithmetic.plus, table.unbind(axis))
    return arithmetic.total(table, axis)


def _runs(
    axes: Axes, owners: Sequence[Axes], sizes: Sequence[int], copies: int
) -> list[tuple[int, tuple[bool, ...]]]:
    """Neighbouring axes of equal role as one: its length, and which of the owners have it."""
    roles = [tuple(axis in owner for owner in owners) for axis in axes]
    everyone = tuple(True for _ in owners)
    every = [*zip(sizes, roles, strict=True), (copies, everyone)]
    marked = [pair for pair in every if pair[0] > 1] or [(1, everyone)]
    return [
        (prod(size for size, _ in run), role)
        for role, run in groupby(marked, key=lambda pair: pair[1])
    ]


def _apply(
    times: Callable[..., Tensor], out: Tensor, left: Tensor, right: Tensor, most: int = MOST_SLICES
) -> None:
    """Writes left times right; unrolls short inner axes, which would make for short inner loops."""
    length = out.shape[-1]
    if out.ndim == 1 or length >= SHORT or length > most or out.numel() < SMALL:
        times(left, right, out=out)
        return
    factors = (own.expand_as(out).unbind(-1) for own in (left, right))
    for target, one, other in zip(out.unbind(-1), *factors, strict=True):
        _apply(times, target, one, other, most // length)


# Tables of non-negative numbers of any magnitude: in linear form where that is safe, else logs.


# A quotient of two such tables is still within the range of the type (e^708 and e^87).
RANGE = {torch.float64: 340.0, torch.float32: 40.0}


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """exp(scale) times the values (their exponentials, where `logs`), for each of n tables.

    The largest value of each is 1 (0, where `logs`) unless all its entries are impossible.
    """

    values: Float[Tensor, " n *sizes"]
    logs: bool
    depth: float
    scale: Float[Tensor, " n"]

    @classmethod
    def of(cls, arithmetic: Arithmetic, values: Float[Tensor, " n *sizes"]) -> ScaledTable:
        """The tables whose values (taken over, if linear) were computed in this arithmetic."""
        linear, scale = arithmetic is SUM_PRODUCT, _largest(values)
        limits = torch.finfo(values.dtype)
        top = along_first(scale.clamp(min=limits.tiny if linear else limits.min), values)
        # Logs may be those of another table, which must stay as they are.
        values = values.div_(top) if linear else values - top
        lowest = values.amin()
        if bool(lowest == arithmetic.zero):  # the lowest that is possible
            lowest = values.masked_fill(values == arithmetic.zero, float(linear)).amin()
        depth = -float(lowest.log() if linear else lowest)
        logs = depth > RANGE[values.dtype]
        if logs == linear:
            values = values.log_() if linear else values.exp_()
        return cls(values, logs, depth, scale.log() if linear else scale)

    def within(self, arithmetic: Arithmetic) -> Float[Tensor, " n *sizes"]:
        """The values as the given arithmetic takes them."""
        if arithmetic is SUM_PRODUCT:
            return self.values.exp() if self.logs else self.values
        return self.values if self.logs else self.values.log()


def safe_arithmetic(tables: Sequence[ScaledTable]) -> Arithmetic:
    """Linear arithmetic where the product of the tables cannot leave its range, else logs."""
    if any(table.logs for table in tables):
        return LOG_SUM_PRODUCT
    depth = sum(table.depth for table in tables)
    return SUM_PRODUCT if depth <= RANGE[tables[0].values.dtype] else LOG_SUM_PRODUCT


def _largest(values: Float[Tensor, " n *sizes"]) -> Float[Tensor, " n"]:
    if len(values) == 1:  # much faster than a maximum along an axis
        return values.max().reshape(1)
    return values.amax(tuple(range(1, values.ndim))) if values.ndim > 1 else values.clone()


def along_first(scale: Float[Tensor, " n"], values: Float[Tensor, " n *sizes"]) -> Tensor:
    """One number a table, in a shape that lines up with the tables."""
    return scale.reshape(-1, *[1] * (values.ndim - 1))


def divide(arithmetic: Arithmetic, total: Tensor, part: Tensor) -> Tensor:
    """The total without the part that is in it; zero wherever the total is, so 0 / 0 is 0."""
    limits = torch.finfo(part.dtype)
    if arithmetic is SUM_PRODUCT:
        return total / part.clamp(min=limits.tiny)
    return total - part.clamp(min=limits.min)


def probabilities(arithmetic: Arithmetic, total: Float[Tensor, " n *sizes"]) -> Tensor:
    """Each table normalised; all zero for one without possibilities."""
    limits, axes = torch.finfo(total.dtype), tuple(range(1, total.ndim))
    if arithmetic is not SUM_PRODUCT:
        total = (total - total.amax(axes, keepdim=True).clamp(min=limits.min)).exp_()
    return total / total.sum(axes, keepdim=True).clamp(min=limits.tiny)
