"""Scores that several problems read, computed once: on a chain a token is in two pieces.

Letters in shapes: r: rows of a pool; l: cells; n: problems of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.slices import Incidence, Members, SlicePlan
from mrflearn.models.state_weights import Bags

NUMBERS_IN_POOL = 2**26  # a larger pool is not held: its scores are computed where they are read
NUMBERS_AT_ONCE = 700_000
LEAST_READERS = 1.5  # of each row, on average


class Key(NamedTuple):
    """A template and its free axes; `pool`: scores of a pool, not weights."""

    group: int
    free: tuple[int, ...]
    pool: bool = False

    def pooled(self) -> Key:
        """The scores of the pool of this plan."""
        return self._replace(pool=True)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Rows of a pool that problems read."""

    bags: Bags
    back: tuple[Int64[Tensor, "u"], Bags]

    def scores(self, weights: Tensor, table: Float[Tensor, "r l"], dense: Tensor) -> Tensor:  # noqa: ARG002
        """The sums of the rows of every problem."""
        return self.bags.sums(table)

    def add_gradient(
        self,
        slopes: Float[Tensor, "n l"],
        weights: Tensor,  # noqa: ARG002
        table: Float[Tensor, "r l"],
        dense: Tensor,  # noqa: ARG002
    ) -> None:
        """Adds the slopes to the rows that were read."""
        used, bags = self.back
        table.index_add_(0, used, bags.sums(slopes))


@dataclass(frozen=True, eq=False)
class Pool:
    """Distinct (features, given states) of a plan: their codes, and blocks of their incidences."""

    codes: Int64[Tensor, "r"]
    others: int
    cells: int
    blocks: list[tuple[slice, Incidence]]

    def gather(self, members: Members) -> Gathered:
        """Which rows problems read."""
        row = torch.searchsorted(self.codes, members.row * self.others + members.other).int()
        counts = torch.bincount(members.problem, minlength=members.problems)
        bags = Bags(row, (counts.cumsum(0) - counts).int(), None)
        return Gathered(bags, bags.transposed())


def find_pools(
    model: LogLinearField,
    batch: FieldBatch,
    plans: dict[Key, SlicePlan],
    used: dict[Key, list[Members]],
) -> dict[Key, Pool]:
    """A pool for every plan whose rows have several readers."""
    pools = {}
    for key, plan in plans.items():
        codes = torch.cat([own.row * plan.others + own.other for own in used[key]])
        distinct = codes.unique()
        cells = plan.weights.labels
        several = len(used[key]) > 1 and len(codes) >= LEAST_READERS * len(distinct)
        if several and len(distinct) * cells <= NUMBERS_IN_POOL:
            pools[key] = _pool(model, batch, key, plan, distinct)
    return pools


def _pool(
    model: LogLinearField, batch: FieldBatch, key: Key, plan: SlicePlan, codes: Int64[Tensor, "r"]
) -> Pool:
    cells, blocks = plan.weights.labels, []
    most = max(1, NUMBERS_AT_ONCE // cells)
    for begin in range(0, len(codes), most):
        own = codes[begin : begin + most]
        number = torch.arange(len(own))
        row, other = own.div(plan.others, rounding_mode="floor"), own % plan.others
        placed = plan.place(
            batch.features[key.group], Members(len(own), number, row, other), model.dtype
        )
        blocks.append((slice(begin, begin + len(own)), placed))
    return Pool(codes, plan.others, cells, blocks)
