"""Tables of non-negative numbers of any magnitude: in linear form where that is safe, else logs.

Linear arithmetic is several times faster than arithmetic on logarithms, but products of very
unequal entries leave the range of floating point.  So each table knows its depth, the log-ratio of
its largest to its smallest positive entry; depths add up under multiplication, and where they
exceed `RANGE` the work is done on logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.table_algebra import LOG_SUM_PRODUCT, SUM_PRODUCT, Axes, Semiring

# A quotient of two such tables is still within the range of the type (e^708 and e^87).
RANGE = {torch.float64: 340.0, torch.float32: 40.0}


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """exp(scale) times the values (their exponentials, where `logs`), for each of n copies.

    The largest value of each copy is 1 (0, where `logs`) unless all its entries are impossible.
    """

    axes: Axes
    values: Float[Tensor, "*sizes n"]
    logs: bool
    depth: float
    scale: Float[Tensor, "n"]

    @classmethod
    def from_logs(cls, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table of the exponentials."""
        scale = _largest(values)
        centred = values - torch.where(scale == -torch.inf, 0.0, scale)
        lowest = torch.where(centred == -torch.inf, 0.0, centred).amin()
        if -float(lowest) > RANGE[values.dtype]:
            return cls(axes, centred, True, -float(lowest), scale)
        return cls(axes, centred.exp(), False, -float(lowest), scale)

    @classmethod
    def from_linear(cls, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table of the values (taken over), none of them too small to be exact."""
        scale = _largest(values)
        values.div_(torch.where(scale == 0, 1.0, scale))
        lowest = values.amin()
        if bool(lowest == 0):
            lowest = torch.where(values == 0, 1.0, values).amin()
        depth = -float(lowest.log())
        if depth > RANGE[values.dtype]:
            return cls(axes, values.log(), True, depth, scale.log())
        return cls(axes, values, False, depth, scale.log())

    @classmethod
    def of(cls, semiring: Semiring, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table whose values were computed in the given arithmetic."""
        return (cls.from_linear if semiring is SUM_PRODUCT else cls.from_logs)(axes, values)

    def within(self, semiring: Semiring) -> Float[Tensor, "*sizes n"]:
        """The values as the given arithmetic takes them."""
        if semiring is SUM_PRODUCT:
            return self.values.exp() if self.logs else self.values
        return self.values if self.logs else self.values.log()


def safe_arithmetic(tables: Sequence[ScaledTable]) -> Semiring:
    """Linear arithmetic where the product of the tables cannot leave its range, else logs."""
    if any(table.logs for table in tables):
        return LOG_SUM_PRODUCT
    depth = sum(table.depth for table in tables)
    dtype = tables[0].values.dtype
    return SUM_PRODUCT if depth <= RANGE[dtype] else LOG_SUM_PRODUCT


def _largest(values: Float[Tensor, "*sizes n"]) -> Float[Tensor, "n"]:
    flat = values.reshape(-1, values.shape[-1])
    # A plain maximum over everything is much faster than one along an axis of stride 1.
    return flat.max().reshape(1) if flat.shape[1] == 1 else flat.amax(dim=0)
