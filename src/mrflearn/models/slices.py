"""Scores of some axes of a template's factors, the states on the other axes being given.

With the other states folded into the attribute (`attribute * others + other`) a slice of a factor
is what a token is to a chain: a bag of attributes with weights for labels.  So the layout of
`state_weights` serves here too, for whole tables (nothing given) as for single rows and columns.

Letters in shapes: w: weights; n: problems; l: cells of the free axes; k: members, each the part
that one factor plays in one problem; d: dense columns; t: all cells of the template.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.features import Numbering
from mrflearn.models.state_weights import Bags, Singles, WeightPlan, incidence
from mrflearn.models.templates import Template, attributes_of, cells_of

NO_NAMES = Numbering(closed=True)


@dataclass(frozen=True, eq=False)
class SlicePlan:
    """Where the weights of a template lie, seen from its `free` axes (in that order)."""

    template: Template
    free: tuple[int, ...]
    codes: Int64[Tensor, "u"]  # attribute * others + other, ascending, of those with weights
    weights: WeightPlan

    @classmethod
    def of(cls, template: Template, free: tuple[int, ...]) -> SlicePlan:
        coordinates = torch.stack(torch.unravel_index(template.cell, template.shape), dim=1)
        given = [axis for axis in range(len(template.shape)) if axis not in free]
        label = cells_of(coordinates[:, list(free)], [template.shape[axis] for axis in free])
        other = cells_of(coordinates[:, given], [template.shape[axis] for axis in given])
        cells = math.prod(template.shape[axis] for axis in free)
        others = template.cells // cells
        codes, number = torch.unique(template.attribute * others + other, return_inverse=True)
        order = (number * cells + label).argsort()
        plan = WeightPlan.over(number[order], label[order], len(codes), cells)
        plan = replace(plan, wide=order[plan.wide], narrow=order[plan.narrow])
        return cls(template, free, codes, plan)

    @property
    def given(self) -> list[int]:
        """The axes that are not free."""
        return [axis for axis in range(len(self.template.shape)) if axis not in self.free]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The states along the free axes."""
        return tuple(self.template.shape[axis] for axis in self.free)

    @property
    def others(self) -> int:
        """How many tuples of states the given axes have."""
        return self.template.cells // self.weights.labels

    def other(self, states: Int64[Tensor, "k a"]) -> Int64[Tensor, "k"]:
        """Which tuple the given axes are in."""
        return cells_of(states[:, self.given], [self.template.shape[axis] for axis in self.given])

    def place(
        self,
        features: CompiledFeatures,
        members: Members,
        dtype: torch.dtype,
        *,
        backward: bool = True,
    ) -> Incidence:
        """Which weights the scores of these problems are made of."""
        place, owner = attributes_of(features, members.row)
        code = features.attributes[place].long() * self.others + members.other[owner]
        found = torch.searchsorted(self.codes, code).clamp(max=max(len(self.codes) - 1, 0))
        kept = self.codes[found] == code if len(self.codes) else torch.zeros_like(code).bool()
        problem = members.problem[owner[kept]]
        counts = torch.bincount(problem, minlength=members.problems)
        values = None if features.values is None else features.values[place[kept]]
        bag = CompiledFeatures(
            NO_NAMES, (), counts, counts.cumsum(0), found[kept].int(), values, None
        )
        bags, singles = incidence(self.weights, bag, dtype)
        back = bags.transposed() if backward else None
        dense = None
        if features.dense is not None:
            dense = features.dense[members.row].to(dtype)
        return Incidence(self, bags, singles, back, dense, members)


@dataclass(frozen=True, eq=False)
class Members:
    """Parts of factors in problems, in the order of the problems.

    `row` names the features of the factor, `other` the tuple its given axes are in.
    """

    problems: int
    problem: Int64[Tensor, "k"]
    row: Int64[Tensor, "k"]
    other: Int64[Tensor, "k"]


@dataclass(frozen=True, eq=False)
class Incidence:
    """The weights that problems read, and the way their gradients take back."""

    plan: SlicePlan
    bags: Bags
    singles: Singles
    back: tuple[Int64[Tensor, "u"], Bags] | None
    dense: Float[Tensor, "k d"] | None
    members: Members

    def scores(
        self, weights: Float[Tensor, "w"], table: Float[Tensor, "r l"], dense: Float[Tensor, "d t"]
    ) -> Float[Tensor, "n l"]:
        """The scores of the free cells of every problem."""
        scores = self.bags.sums(table)
        self.singles.add_scores(weights, scores)
        if self.dense is not None and len(dense):
            scores.index_add_(0, self.members.problem, self._picked(self.dense @ dense))
        return scores

    def add_gradient(
        self,
        slopes: Float[Tensor, "n l"],
        weights: Float[Tensor, "w"],
        table: Float[Tensor, "r l"],
        dense: Float[Tensor, "d t"],
    ) -> None:
        """Adds to the gradients of single weights, of table rows and of dense weights."""
        assert self.back is not None  # noqa: S101 - made for training
        used, bags = self.back
        if len(used):
            table.index_add_(0, used, bags.sums(slopes))
        self.singles.add_gradient(slopes, weights)
        if self.dense is not None and len(dense):
            full = self._spread(slopes[self.members.problem])
            dense.addmm_(self.dense.t(), full)

    def _axes(self) -> list[int]:
        return [1 + axis for axis in (*self.plan.given, *self.plan.free)]

    def _picked(self, full: Float[Tensor, "k t"]) -> Float[Tensor, "k l"]:
        """Of the scores of all cells those of the free ones, at the other states that are given."""
        shaped = full.view(-1, *self.plan.template.shape).permute(0, *self._axes())
        cells = shaped.reshape(len(full), self.plan.others, -1)
        return cells[torch.arange(len(full)), self.members.other]

    def _spread(self, slopes: Float[Tensor, "k l"]) -> Float[Tensor, "k t"]:
        """The way back: zero where other states than the given ones are."""
        shape = [self.plan.template.shape[axis] for axis in (*self.plan.given, *self.plan.free)]
        full = slopes.new_zeros(len(slopes), self.plan.others, slopes.shape[1])
        full[torch.arange(len(slopes)), self.members.other] = slopes
        order = [0, *(1 + int(i) for i in torch.tensor(self._axes()).argsort())]
        return full.view(-1, *shape).permute(order).reshape(len(slopes), -1)
